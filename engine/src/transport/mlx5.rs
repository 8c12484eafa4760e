//! The format of requests and completions: that of NVIDIA's ConnectX NICs (mlx5), byte for byte, so that a GPU can write
//! what a NIC reads. Every number is in network byte order.
//!
//! A request is one 64-byte entry of a send queue, of which the first 48 bytes say something:
//!
//! ```text
//!  0 opcode modifier  1-2 index of the entry  3 opcode   4-6 queue pair  7 segments of 16 bytes (3)
//!  8 signature (0)    9-10 reserved           11 flags   12-15 immediate (0)
//! 16-23 remote address         24-27 remote key   28-31 reserved
//! 32-35 bytes                  36-39 local key    40-47 local address
//! ```
//!
//! A completion is one 64-byte entry of a completion queue:
//!
//! ```text
//! 44-47 bytes   54 vendor's syndrome   55 syndrome (both only in errors)
//! 56 opcode of the request   57-59 queue pair   60-61 index of the request
//! 63 opcode << 4 | format << 2 | solicited << 1 | owner
//! ```
//!
//! The owner bit tells a new completion from one of the round before: it is that of the round, 0 in the first, 1 in the
//! second, and so on. The host gives the queue to the NIC with every byte 0xFF, which is no completion.
//!
//! Source: rdma-core, `providers/mlx5/mlx5dv.h` (`mlx5_wqe_ctrl_seg`, `mlx5_wqe_raddr_seg`, `mlx5_wqe_data_seg`,
//! `mlx5_cqe64`, `mlx5_err_cqe`) and `providers/mlx5/cq.c`; a test compares with that header where it is installed.

use std::fmt;

use thiserror::Error;

/// Bytes of an entry of a send queue and of a completion queue.
pub const ENTRY_BYTES: usize = 64;

/// An entry of a queue.
pub type Entry = [u8; ENTRY_BYTES];

/// A completion queue that the NIC has not written to yet is full of this.
pub const UNWRITTEN: Entry = [0xFF; ENTRY_BYTES];

/// Segments of 16 bytes that a request is made of: control, remote address, data.
const SEGMENTS: u8 = 3;
/// "Make a completion", in the flags of a request.
const FLAG_COMPLETION: u8 = 0x08;
/// "Begin when all requests before are done", in the same byte.
const FLAG_FENCE: u8 = 0x80;
/// The low 24 bits name a queue pair.
const QUEUE_PAIR_MASK: u32 = 0xFF_FFFF;

/// The opcodes of completions.
const COMPLETION_DONE: u8 = 0;
const COMPLETION_ERROR: u8 = 13;
const COMPLETION_UNWRITTEN: u8 = 15;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Local bytes go to the other end: a dirty page leaves.
    RdmaWrite,
    /// Bytes of the other end come here: a page fault.
    RdmaRead,
}

impl Opcode {
    fn code(self) -> u8 {
        match self {
            Self::RdmaWrite => 0x08,
            Self::RdmaRead => 0x10,
        }
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RdmaWrite => "RDMA WRITE",
            Self::RdmaRead => "RDMA READ",
        })
    }
}

/// One entry of a send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// What is asked for.
    pub opcode: Opcode,
    /// How many requests were posted to the queue before, modulo 2^16.
    pub index: u16,
    /// Number of the queue pair, 24 bits.
    pub queue_pair: u32,
    /// Whether it makes a completion when all went well; an error always makes one.
    pub signaled: bool,
    /// Whether it waits for all requests before.
    pub fenced: bool,
    /// Address at the other end.
    pub remote_address: u64,
    /// Key of the other end's memory region.
    pub remote_key: u32,
    /// Address here: of a page frame.
    pub local_address: u64,
    /// Key of the memory region here.
    pub local_key: u32,
    /// Bytes to move.
    pub length: u32,
}

/// An entry of a send queue that is no request of the kind that is written here.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum MalformedRequest {
    #[error("opcode {code:#04x} is neither RDMA READ (0x10) nor RDMA WRITE (0x08)")]
    Opcode { code: u8 },
    #[error("{segments} segments, a request has 3")]
    Segments { segments: u8 },
    #[error("reserved bytes are not 0")]
    Reserved,
}

fn be16(entry: &Entry, at: usize) -> u16 {
    u16::from_be_bytes([entry[at], entry[at + 1]])
}

fn be32(entry: &Entry, at: usize) -> u32 {
    u32::from_be_bytes(entry[at..at + 4].try_into().expect("4 bytes"))
}

fn be64(entry: &Entry, at: usize) -> u64 {
    u64::from_be_bytes(entry[at..at + 8].try_into().expect("8 bytes"))
}

impl WorkRequest {
    /// The request as the NIC reads it.
    pub fn encode(&self) -> Entry {
        let mut entry = [0; ENTRY_BYTES];
        entry[0..4]
            .copy_from_slice(&(u32::from(self.index) << 8 | u32::from(self.opcode.code())).to_be_bytes());
        let queue_pair = self.queue_pair & QUEUE_PAIR_MASK;
        entry[4..8].copy_from_slice(&(queue_pair << 8 | u32::from(SEGMENTS)).to_be_bytes());
        entry[11] =
            if self.signaled { FLAG_COMPLETION } else { 0 } | if self.fenced { FLAG_FENCE } else { 0 };
        entry[16..24].copy_from_slice(&self.remote_address.to_be_bytes());
        entry[24..28].copy_from_slice(&self.remote_key.to_be_bytes());
        entry[32..36].copy_from_slice(&self.length.to_be_bytes());
        entry[36..40].copy_from_slice(&self.local_key.to_be_bytes());
        entry[40..48].copy_from_slice(&self.local_address.to_be_bytes());
        entry
    }

    /// What an entry asks for. The last 16 bytes belong to no segment and are not looked at.
    ///
    /// # Errors
    /// [`MalformedRequest`] if a NIC would refuse it, or it is of a kind that is not used here.
    pub fn decode(entry: &Entry) -> Result<Self, MalformedRequest> {
        let opcode = match entry[3] {
            0x08 => Opcode::RdmaWrite,
            0x10 => Opcode::RdmaRead,
            code => return Err(MalformedRequest::Opcode { code }),
        };
        if entry[7] & 0x3F != SEGMENTS {
            return Err(MalformedRequest::Segments { segments: entry[7] & 0x3F });
        }
        let flags = entry[11];
        let reserved =
            [entry[0], entry[7] & !0x3F, entry[9], entry[10], flags & !(FLAG_COMPLETION | FLAG_FENCE)];
        if reserved.iter().chain(&entry[28..32]).any(|&byte| byte != 0) {
            return Err(MalformedRequest::Reserved);
        }
        Ok(Self {
            opcode,
            index: be16(entry, 1),
            queue_pair: be32(entry, 4) >> 8,
            signaled: flags & FLAG_COMPLETION != 0,
            fenced: flags & FLAG_FENCE != 0,
            remote_address: be64(entry, 16),
            remote_key: be32(entry, 24),
            local_address: be64(entry, 40),
            local_key: be32(entry, 36),
            length: be32(entry, 32),
        })
    }
}

/// Why a request failed, as the NIC puts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Syndrome(pub u8);

macro_rules! syndromes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        impl Syndrome {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Every syndrome that the format knows.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What it means, in the words of the InfiniBand specification; none if the format does not know it.
            pub fn name(self) -> Option<&'static str> {
                match self { $(Self::$name => Some($text),)* _ => None }
            }
        }
    };
}

syndromes! {
    /// The request is longer than the memory that it names.
    LOCAL_LENGTH = 0x01, "local length error";
    /// The queue pair cannot do this request in its state.
    LOCAL_QP_OPERATION = 0x02, "local queue pair operation error";
    /// The local key does not allow this range: wrong key, or a region too short.
    LOCAL_PROTECTION = 0x04, "local protection error";
    /// A request behind one that failed: the queue pair does no more.
    FLUSHED = 0x05, "work request flushed error";
    /// A memory window could not be bound.
    MEMORY_WINDOW_BIND = 0x06, "memory window bind error";
    /// The other end answered something unexpected.
    BAD_RESPONSE = 0x10, "bad response error";
    /// The local range may not be accessed in this way.
    LOCAL_ACCESS = 0x11, "local access error";
    /// The other end does not do such requests.
    REMOTE_INVALID_REQUEST = 0x12, "remote invalid request error";
    /// The remote key does not allow this range: wrong key, or a region too short.
    REMOTE_ACCESS = 0x13, "remote access error";
    /// The other end could not do it.
    REMOTE_OPERATION = 0x14, "remote operation error";
    /// The other end did not answer: cable, switch, device.
    RETRY_EXCEEDED = 0x15, "transport retry counter exceeded";
    /// The other end stayed not ready.
    RNR_RETRY_EXCEEDED = 0x16, "receiver-not-ready retry counter exceeded";
    /// The other end gave up.
    REMOTE_ABORTED = 0x22, "remote aborted error";
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (syndrome {:#04x})", self.name().unwrap_or("unknown error"), self.0)
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The bytes have been moved.
    Done,
    /// They have not.
    Failed {
        /// Why.
        syndrome: Syndrome,
        /// More about it, in the vendor's own numbers.
        vendor: u8,
    },
}

/// One entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// How it ended.
    pub status: Status,
    /// [`WorkRequest::index`] of the request; of all signaled ones up to it, if not every request is.
    pub index: u16,
    /// The queue pair of the request, 24 bits.
    pub queue_pair: u32,
    /// Bytes moved.
    pub length: u32,
}

/// The owner bit of the `consumed`th completion of a queue with `num_entries` entries, a power of two.
fn owner(consumed: u64, num_entries: u64) -> u8 {
    u8::from(consumed & num_entries != 0)
}

impl Completion {
    /// The completion as the NIC writes it, number `produced` (from 0) of a queue of `num_entries`, a power of two.
    pub fn encode(&self, opcode: Opcode, produced: u64, num_entries: u64) -> Entry {
        debug_assert!(num_entries.is_power_of_two());
        let mut entry = [0; ENTRY_BYTES];
        let code = match self.status {
            Status::Done => {
                entry[44..48].copy_from_slice(&self.length.to_be_bytes());
                COMPLETION_DONE
            }
            Status::Failed { syndrome, vendor } => {
                (entry[54], entry[55]) = (vendor, syndrome.0);
                COMPLETION_ERROR
            }
        };
        let queue_pair = self.queue_pair & QUEUE_PAIR_MASK;
        entry[56..60].copy_from_slice(&(u32::from(opcode.code()) << 24 | queue_pair).to_be_bytes());
        entry[60..62].copy_from_slice(&self.index.to_be_bytes());
        entry[63] = code << 4 | owner(produced, num_entries);
        entry
    }

    /// The completion in `entry`, the place of number `consumed` (from 0) of a queue of `num_entries`, a power of two; none
    /// if it has not come yet.
    pub fn decode(entry: &Entry, consumed: u64, num_entries: u64) -> Option<Self> {
        debug_assert!(num_entries.is_power_of_two());
        let (code, owned_by) = (entry[63] >> 4, entry[63] & 1);
        if code == COMPLETION_UNWRITTEN || owned_by != owner(consumed, num_entries) {
            return None;
        }
        let status = match code {
            COMPLETION_DONE => Status::Done,
            _ => Status::Failed { syndrome: Syndrome(entry[55]), vendor: entry[54] },
        };
        Some(Self {
            status,
            index: be16(entry, 60),
            queue_pair: be32(entry, 56) & QUEUE_PAIR_MASK,
            length: if status == Status::Done { be32(entry, 44) } else { 0 },
        })
    }
}

/// Where in a doorbell record the send queue's word is; word 0 is the receive queue's.
pub const SEND_DOORBELL_WORD: usize = 1;

/// The doorbell record: how many requests were ever posted to the send queue. Written before the doorbell rings.
pub fn send_doorbell_record(num_posted: u64) -> [u8; 4] {
    ((num_posted & 0xFFFF) as u32).to_be_bytes()
}

/// The doorbell: one 8-byte store to the NIC's register, the queue pair and how many requests were ever posted to it.
pub fn doorbell(num_posted: u64, queue_pair: u32) -> [u8; 8] {
    let mut word = [0; 8];
    word[..4].copy_from_slice(&(((num_posted & 0xFFFF) as u32) << 8).to_be_bytes());
    word[4..].copy_from_slice(&((queue_pair & QUEUE_PAIR_MASK) << 8).to_be_bytes());
    word
}

/// The completion queue's own record: how many completions were ever taken, 24 bits of it.
pub fn completion_record(num_consumed: u64) -> [u8; 4] {
    ((num_consumed & 0xFF_FFFF) as u32).to_be_bytes()
}

#[cfg(test)]
#[path = "mlx5_tests.rs"]
mod tests;
