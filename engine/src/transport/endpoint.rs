//! What two ends of a reliable connection tell each other before they can talk.

use serde::{Deserialize, Serialize};

/// One end of a connection: all that the other end has to know. How it gets there is not the transport's business: in
/// loopback it is a copy, between hosts a file or a socket will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Number of the queue pair, 24 bits.
    pub queue_pair: u32,
    /// Address of the port on a routed network (RoCE); all zero if it has none.
    pub gid: [u8; 16],
    /// Address of the port on an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Number of its first packet, 24 bits.
    pub first_packet: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_goes_through_json_and_comes_back() {
        let gid = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 77, 0, 1];
        let endpoint = Endpoint { queue_pair: 0x12_3456, gid, lid: 7, first_packet: 0xAB_CDEF };
        let text = serde_json::to_string(&endpoint).expect("JSON");
        assert!(text.starts_with(r#"{"queue_pair":1193046,"gid":[0,0,"#), "{text}");
        assert_eq!(serde_json::from_str::<Endpoint>(&text).expect("read"), endpoint);
    }
}
