use std::ffi::CStr;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use ibverbs_sys as ffi;

use super::RdmaError;

/// The port that is used: NICs with two ports show up as two devices nowadays.
const PORT: u8 = 1;

/// The network behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: addressed by local ids.
    InfiniBand,
    /// Ethernet: RoCE, addressed by IP addresses.
    Ethernet,
}

/// What a NIC and its port offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// The network.
    pub link_layer: LinkLayer,
    /// Bytes of payload of a packet at most: 256 to 4096.
    pub mtu_bytes: u32,
    /// RDMA READs that a queue pair has on their way at most.
    pub max_reads: u8,
    /// RDMA READs that a queue pair answers at a time at most.
    pub max_reads_answered: u8,
    /// Queue pairs.
    pub max_queue_pairs: u32,
    /// Requests of a queue pair.
    pub max_requests: u32,
    /// Entries of a completion queue.
    pub max_completions: u32,
}

/// An open RDMA device with its protection domain. A clone is the same one.
#[derive(Clone, Debug)]
pub struct RdmaDevice(Arc<Open>);

#[derive(Debug)]
pub(super) struct Open {
    pub name: String,
    pub context: NonNull<ffi::ibv_context>,
    pub domain: NonNull<ffi::ibv_pd>,
    pub mtu_code: u32,
    pub lid: u16,
    pub gid: [u8; 16],
    pub gid_index: u8,
    pub facts: PortFacts,
}

// SAFETY: libibverbs is thread-safe: every verb may be called on these from any thread.
unsafe impl Send for Open {}
// SAFETY: as above.
unsafe impl Sync for Open {}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: made by `RdmaDevice::open`, given back once, the domain before its device. All that was made of them holds
        // this value, so it is gone. Failure would leak, no more.
        unsafe {
            ffi::ibv_dealloc_pd(self.domain.as_ptr());
            ffi::ibv_close_device(self.context.as_ptr());
        }
    }
}

/// The names of all RDMA devices, sorted.
///
/// # Errors
/// [`RdmaError::List`] if the kernel knows nothing of RDMA.
pub fn device_names() -> Result<Vec<String>, RdmaError> {
    let list = ibverbs::devices().map_err(RdmaError::List)?;
    let mut names: Vec<_> =
        list.iter().filter_map(|device| Some(device.name()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

fn state_name(state: ffi::ibv_port_state::Type) -> &'static str {
    match state {
        ffi::ibv_port_state::IBV_PORT_DOWN => "down",
        ffi::ibv_port_state::IBV_PORT_INIT => "initializing",
        ffi::ibv_port_state::IBV_PORT_ARMED => "armed",
        ffi::ibv_port_state::IBV_PORT_ACTIVE => "active",
        ffi::ibv_port_state::IBV_PORT_ACTIVE_DEFER => "deferred",
        _ => "in an unknown state",
    }
}

/// A device that is closed unless it is kept.
struct Opening(NonNull<ffi::ibv_context>);

impl Drop for Opening {
    fn drop(&mut self) {
        // SAFETY: opened by `open_by_name`, closed once.
        unsafe { ffi::ibv_close_device(self.0.as_ptr()) };
    }
}

fn open_by_name(name: &str) -> Result<Opening, RdmaError> {
    let mut count = 0;
    // SAFETY: writes the number of entries that it returns.
    let list = unsafe { ffi::ibv_get_device_list(&mut count) };
    if list.is_null() {
        return Err(RdmaError::List(io::Error::last_os_error()));
    }
    // SAFETY: the list has `count` entries, each a device until the list is freed.
    let devices = unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) };
    let device = devices.iter().copied().find(|&device| {
        // SAFETY: a device of the list has a name, which ends in 0.
        unsafe { CStr::from_ptr(ffi::ibv_get_device_name(device)) }.to_bytes() == name.as_bytes()
    });
    // SAFETY: a device of the list, which is still there.
    let context = device.map(|device| NonNull::new(unsafe { ffi::ibv_open_device(device) }));
    let error = io::Error::last_os_error();
    // SAFETY: came from `ibv_get_device_list`, freed once; an open device outlives its list.
    unsafe { ffi::ibv_free_device_list(list) };
    match context {
        Some(Some(context)) => Ok(Opening(context)),
        Some(None) => Err(RdmaError::Verb { nic: name.to_owned(), what: "open the device", source: error }),
        None => Err(RdmaError::NoDevice { name: name.to_owned(), names: device_names()? }),
    }
}

impl RdmaDevice {
    /// Opens the device of this name, whose port must be active.
    ///
    /// # Errors
    /// [`RdmaError::NoDevice`] with the names that there are, [`RdmaError::PortNotActive`], [`RdmaError::NoAddress`],
    /// [`RdmaError::Verb`].
    pub fn open(name: &str) -> Result<Self, RdmaError> {
        let opening = open_by_name(name)?;
        let context = opening.0;
        let failed = |what| {
            let nic = name.to_owned();
            move |source: io::Error| RdmaError::Verb { nic, what, source }
        };
        let port = query_port(context).map_err(failed("ask about the port"))?;
        if port.state != ffi::ibv_port_state::IBV_PORT_ACTIVE {
            let state = state_name(port.state);
            return Err(RdmaError::PortNotActive { nic: name.to_owned(), port: PORT, state });
        }
        let mut device = ffi::ibv_device_attr::default();
        // SAFETY: an open device; writes one struct.
        check(unsafe { ffi::ibv_query_device(context.as_ptr(), &mut device) })
            .map_err(failed("ask about the device"))?;
        let link_layer = match u32::from(port.link_layer) {
            ffi::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            _ => LinkLayer::InfiniBand,
        };
        let gid = gid(context, port.gid_tbl_len.max(0) as usize, link_layer)
            .map_err(failed("ask for the addresses of the port"))?;
        if gid.is_none() && link_layer == LinkLayer::Ethernet {
            return Err(RdmaError::NoAddress { nic: name.to_owned(), port: PORT });
        }
        let (gid_index, gid) = gid.unwrap_or_default();
        // SAFETY: an open device.
        let domain = NonNull::new(unsafe { ffi::ibv_alloc_pd(context.as_ptr()) })
            .ok_or_else(|| failed("allocate a protection domain")(io::Error::last_os_error()))?;
        std::mem::forget(opening); // from here on closed by `Open`
        let unsigned = |number: i32| u32::try_from(number).unwrap_or(0);
        let byte = |number: i32| number.clamp(0, 255) as u8;
        Ok(Self(Arc::new(Open {
            name: name.to_owned(),
            context,
            domain,
            mtu_code: port.active_mtu,
            lid: port.lid,
            gid,
            gid_index,
            facts: PortFacts {
                link_layer,
                mtu_bytes: 128 << port.active_mtu.min(5),
                max_reads: byte(device.max_qp_init_rd_atom),
                max_reads_answered: byte(device.max_qp_rd_atom),
                max_queue_pairs: unsigned(device.max_qp),
                max_requests: unsigned(device.max_qp_wr),
                max_completions: unsigned(device.max_cqe),
            },
        })))
    }

    /// Its name, `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it offers.
    pub fn facts(&self) -> PortFacts {
        self.0.facts
    }

    /// Whether its port is active now: false once the cable is out, and once the device is gone.
    pub fn is_active(&self) -> bool {
        query_port(self.0.context).is_ok_and(|port| port.state == ffi::ibv_port_state::IBV_PORT_ACTIVE)
    }

    /// Whether its driver registers dma-bufs, pieces of another device's memory.
    pub fn knows_dma_bufs(&self) -> bool {
        super::region::knows_dma_bufs(self)
    }

    pub(super) fn open_device(&self) -> &Arc<Open> {
        &self.0
    }

    pub(super) fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> RdmaError {
        let nic = self.name().to_owned();
        move |source| RdmaError::Verb { nic, what, source }
    }
}

/// The number that most verbs return: 0 or an `errno`.
pub(super) fn check(errno: i32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno.abs())) }
}

pub(super) const fn port() -> u8 {
    PORT
}

fn query_port(context: NonNull<ffi::ibv_context>) -> io::Result<ffi::ibv_port_attr> {
    let mut port = ffi::ibv_port_attr::default();
    // SAFETY: an open device. The function fills in the first fields of `ibv_port_attr`, which the older struct in its
    // declaration are.
    check(unsafe { ffi::ibv_query_port(context.as_ptr(), PORT, (&raw mut port).cast()) })?;
    Ok(port)
}

/// The address that others reach the port by, with its place in the table: for RoCE version 2 by an IPv4 address if there
/// is one, then by any; on InfiniBand the first.
fn gid(
    context: NonNull<ffi::ibv_context>,
    num_entries: usize,
    link_layer: LinkLayer,
) -> io::Result<Option<(u8, [u8; 16])>> {
    const IPV4_MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF];
    let mut table = vec![ffi::ibv_gid_entry::default(); num_entries];
    let size = size_of::<ffi::ibv_gid_entry>();
    // SAFETY: an open device; writes at most `num_entries` entries of `size` bytes.
    let count =
        unsafe { ffi::_ibv_query_gid_table(context.as_ptr(), table.as_mut_ptr(), num_entries, 0, size) };
    let count = usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(-count as i32))?;
    let of_port = || table[..count].iter().filter(|entry| entry.port_num == u32::from(PORT));
    // SAFETY: every bit pattern of the union is 16 bytes.
    let raw = |entry: &ffi::ibv_gid_entry| unsafe { entry.gid.raw };
    let found = match link_layer {
        LinkLayer::InfiniBand => of_port().next(),
        LinkLayer::Ethernet => {
            let routable = || of_port().filter(|entry| entry.gid_type == ffi::IBV_GID_TYPE_ROCE_V2);
            routable().find(|entry| raw(entry).starts_with(&IPV4_MAPPED)).or_else(|| routable().next())
        }
    };
    Ok(found.and_then(|entry| Some((u8::try_from(entry.gid_index).ok()?, raw(entry)))))
}
