use std::ffi::{CStr, c_void};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ffi::ibv_qp_attr_mask as Mask;
use ibverbs_sys as ffi;

use super::RdmaError;
use super::device::{Open, RdmaDevice, check, port};
use crate::transport::endpoint::Endpoint;
use crate::transport::mlx5::Syndrome;

/// Number of the first packet of a connection; any will do.
const FIRST_PACKET: u32 = 0x10_0000;

/// 4.096 us * 2^14 = 67 ms without an answer, then once more, 7 times: half a second until a NIC counts as gone.
const ANSWER_TIMEOUT: u8 = 14;
const RETRIES: u8 = 7;

/// A NIC's queue pairs, all with one completion queue.
#[derive(Debug)]
pub struct Queues {
    // Before the completion queue, which must not go while a queue pair uses it.
    pairs: Vec<QueuePair>,
    completions: Arc<CompletionQueue>,
    scratch: Vec<ffi::ibv_wc>,
}

// SAFETY: the array of completions holds plain numbers.
unsafe impl Send for Queues {}

#[derive(Debug)]
pub(super) struct CompletionQueue {
    queue: NonNull<ffi::ibv_cq>,
    nic: Arc<Open>,
}

// SAFETY: verbs may be called from any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// Takes over a completion queue of an open device, which is given back with it.
    pub fn from_raw(queue: NonNull<ffi::ibv_cq>, nic: &Arc<Open>) -> Self {
        Self { queue, nic: Arc::clone(nic) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: made for its owner, given back once, after its queue pairs (they hold this). Failure would leak.
        unsafe { ffi::ibv_destroy_cq(self.queue.as_ptr()) };
    }
}

/// A reliable connection's queue of requests.
#[derive(Debug)]
pub struct QueuePair {
    pair: NonNull<ffi::ibv_qp>,
    completions: Arc<CompletionQueue>,
    depth: u32,
}

// SAFETY: verbs may be called from any thread.
unsafe impl Send for QueuePair {}
// SAFETY: as above; posting takes the library's own lock.
unsafe impl Sync for QueuePair {}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made by `QueuePair::new`, given back once, before its completion queue and its device. Failure would leak.
        unsafe { ffi::ibv_destroy_qp(self.pair.as_ptr()) };
    }
}

/// A request: bytes of the other end come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// What the completion is told by.
    pub id: u64,
    /// Address at the other end.
    pub remote_address: u64,
    /// Key of the other end's region.
    pub remote_key: u32,
    /// Address here.
    pub local_address: u64,
    /// Key of the region here.
    pub local_key: u32,
    /// Bytes.
    pub length: u32,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// [`Read::id`].
    pub id: u64,
    /// Bytes that came.
    pub length: u32,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// As libibverbs counts: `IBV_WC_`.
    pub status: u32,
    /// As the vendor counts.
    pub vendor: u32,
}

impl Failure {
    /// The same as a NIC of the mlx5 family puts it.
    pub fn syndrome(self) -> Syndrome {
        use ffi::ibv_wc_status as status;
        match self.status {
            status::IBV_WC_LOC_LEN_ERR => Syndrome::LOCAL_LENGTH,
            status::IBV_WC_LOC_PROT_ERR => Syndrome::LOCAL_PROTECTION,
            status::IBV_WC_WR_FLUSH_ERR => Syndrome::FLUSHED,
            status::IBV_WC_MW_BIND_ERR => Syndrome::MEMORY_WINDOW_BIND,
            status::IBV_WC_BAD_RESP_ERR => Syndrome::BAD_RESPONSE,
            status::IBV_WC_LOC_ACCESS_ERR => Syndrome::LOCAL_ACCESS,
            status::IBV_WC_REM_INV_REQ_ERR => Syndrome::REMOTE_INVALID_REQUEST,
            status::IBV_WC_REM_ACCESS_ERR => Syndrome::REMOTE_ACCESS,
            status::IBV_WC_REM_OP_ERR => Syndrome::REMOTE_OPERATION,
            status::IBV_WC_RETRY_EXC_ERR | status::IBV_WC_RESP_TIMEOUT_ERR => Syndrome::RETRY_EXCEEDED,
            status::IBV_WC_RNR_RETRY_EXC_ERR => Syndrome::RNR_RETRY_EXCEEDED,
            status::IBV_WC_REM_ABORT_ERR => Syndrome::REMOTE_ABORTED,
            _ => Syndrome::LOCAL_QP_OPERATION,
        }
    }

    /// Whether another NIC may well do the request: it is not the request that is wrong, but the NIC or what lies behind it.
    pub fn is_of_the_nic(self) -> bool {
        use ffi::ibv_wc_status as status;
        matches!(
            self.status,
            status::IBV_WC_LOC_QP_OP_ERR
                | status::IBV_WC_WR_FLUSH_ERR
                | status::IBV_WC_RETRY_EXC_ERR
                | status::IBV_WC_RNR_RETRY_EXC_ERR
                | status::IBV_WC_RESP_TIMEOUT_ERR
                | status::IBV_WC_REM_ABORT_ERR
                | status::IBV_WC_FATAL_ERR
                | status::IBV_WC_GENERAL_ERR
        )
    }

    /// What libibverbs calls it.
    pub fn text(self) -> String {
        // SAFETY: takes any number and returns a text that is there for good.
        unsafe { CStr::from_ptr(ffi::ibv_wc_status_str(self.status)) }.to_string_lossy().into_owned()
    }
}

impl Queues {
    /// `num_pairs` queue pairs of `depth` requests each, each connected to itself: what they read is memory of this host.
    ///
    /// # Errors
    /// [`RdmaError::TooMany`] beyond what the NIC offers, [`RdmaError::Verb`].
    pub fn in_loopback(nic: &RdmaDevice, num_pairs: u32, depth: u32) -> Result<Self, RdmaError> {
        let mut queues = Self::new(nic, num_pairs, depth)?;
        for pair in &mut queues.pairs {
            let other_end = pair.endpoint();
            pair.connect(&other_end)?;
        }
        Ok(queues)
    }

    /// The same, not connected yet.
    ///
    /// # Errors
    /// As [`in_loopback`](Self::in_loopback).
    pub fn new(nic: &RdmaDevice, num_pairs: u32, depth: u32) -> Result<Self, RdmaError> {
        let facts = nic.facts();
        let num_completions = u64::from(num_pairs) * u64::from(depth);
        for (what, asked, most) in [
            ("queue pairs", u64::from(num_pairs), facts.max_queue_pairs),
            ("requests a queue pair", depth.into(), facts.max_requests),
            ("completions at a time", num_completions, facts.max_completions),
        ] {
            if asked > most.into() {
                return Err(RdmaError::TooMany {
                    nic: nic.name().to_owned(),
                    what,
                    asked,
                    most: most.into(),
                });
            }
        }
        let open = nic.open_device();
        // SAFETY: an open device; no channel and no context, since completions are polled.
        let queue = unsafe {
            ffi::ibv_create_cq(
                open.context.as_ptr(),
                num_completions.max(1) as i32,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
        let queue = NonNull::new(queue)
            .ok_or_else(|| nic.failed("create a completion queue")(io::Error::last_os_error()))?;
        let completions = Arc::new(CompletionQueue::from_raw(queue, open));
        let pairs: Result<_, _> = (0..num_pairs).map(|_| QueuePair::new(nic, &completions, depth)).collect();
        Ok(Self { pairs: pairs?, completions, scratch: vec![ffi::ibv_wc::default(); 64] })
    }

    /// The queue pairs.
    pub fn pairs(&self) -> &[QueuePair] {
        &self.pairs
    }

    /// The same, to be connected.
    pub fn pairs_mut(&mut self) -> &mut [QueuePair] {
        &mut self.pairs
    }

    /// Has the device give back what is under way, `num_under_way` requests, and waits for them, but no longer than
    /// `patience`. Whether all came back: then it writes nothing any more.
    pub fn stop(&mut self, mut num_under_way: usize, patience: Duration) -> bool {
        for pair in &self.pairs {
            if let Err(error) = pair.stop() {
                tracing::debug!(%error, "as it is gone anyway");
            }
        }
        let started = Instant::now();
        while num_under_way > 0 && started.elapsed() < patience {
            match self.poll(|_| {}) {
                Ok(0) => std::thread::yield_now(),
                Ok(count) => num_under_way = num_under_way.saturating_sub(count),
                Err(_) => break,
            }
        }
        num_under_way == 0
    }

    /// Calls `take` for completions that came since, up to 64; returns how many. Without a wait.
    ///
    /// # Errors
    /// [`RdmaError::Verb`] if the device is gone.
    pub fn poll(&mut self, mut take: impl FnMut(Outcome)) -> Result<usize, RdmaError> {
        let queue = self.completions.queue.as_ptr();
        // SAFETY: a live completion queue; `poll_cq` is what the device's driver put into its table when it was opened,
        // and writes at most as many entries as `scratch` has.
        let count = unsafe {
            let poll = (*(*queue).context).ops.poll_cq.expect("every driver polls");
            poll(queue, self.scratch.len() as i32, self.scratch.as_mut_ptr())
        };
        let count = usize::try_from(count).map_err(|_| RdmaError::Verb {
            nic: self.completions.nic.name.clone(),
            what: "poll completions",
            source: io::Error::from_raw_os_error(count.abs()),
        })?;
        for completion in &self.scratch[..count] {
            let failure = completion.error().map(|(status, vendor)| Failure { status, vendor });
            take(Outcome {
                id: completion.wr_id(),
                length: if failure.is_none() { completion.len() as u32 } else { 0 },
                failure,
            });
        }
        Ok(count)
    }
}

impl QueuePair {
    pub(super) fn new(
        nic: &RdmaDevice,
        completions: &Arc<CompletionQueue>,
        depth: u32,
    ) -> Result<Self, RdmaError> {
        let queue = completions.queue.as_ptr();
        let mut attributes = ffi::ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: queue,
            recv_cq: queue,
            srq: ptr::null_mut(),
            cap: ffi::ibv_qp_cap {
                max_send_wr: depth,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            },
            qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
            // Each request asks for its completion. If all had to have one, mlx5 would put up to 32 bytes that were read into
            // the completion, and not where they belong: libibverbs copies them as it polls, kernels do not.
            sq_sig_all: 0,
        };
        // SAFETY: an open protection domain, a live completion queue; what is granted is written to `attributes`.
        let pair = unsafe { ffi::ibv_create_qp(nic.open_device().domain.as_ptr(), &mut attributes) };
        let pair = NonNull::new(pair)
            .ok_or_else(|| nic.failed("create a queue pair")(io::Error::last_os_error()))?;
        Ok(Self { pair, completions: Arc::clone(completions), depth })
    }

    /// The `ibv_qp` and its `ibv_cq`.
    pub(super) fn as_raw(&self) -> (*mut c_void, *mut c_void) {
        (self.pair.as_ptr().cast(), self.completions.queue.as_ptr().cast())
    }

    /// Its number, 24 bits.
    pub fn number(&self) -> u32 {
        // SAFETY: a live queue pair, whose number never changes.
        unsafe { self.pair.as_ref().qp_num }
    }

    /// Requests that it takes before one has completed.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// What the other end needs to know.
    pub fn endpoint(&self) -> Endpoint {
        let nic = &self.completions.nic;
        Endpoint { queue_pair: self.number(), gid: nic.gid, lid: nic.lid, first_packet: FIRST_PACKET }
    }

    /// Connects it to the other end, which must do the same.
    ///
    /// # Errors
    /// [`RdmaError::Verb`].
    pub fn connect(&mut self, other_end: &Endpoint) -> Result<(), RdmaError> {
        let nic = Arc::clone(&self.completions.nic);
        let mut init = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            port_num: port(),
            qp_access_flags: ffi::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0,
            ..Default::default()
        };
        self.modify(
            &mut init,
            Mask::IBV_QP_STATE | Mask::IBV_QP_PKEY_INDEX | Mask::IBV_QP_PORT | Mask::IBV_QP_ACCESS_FLAGS,
            "initialize a queue pair",
        )?;
        let mut ready_to_receive = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: nic.mtu_code,
            dest_qp_num: other_end.queue_pair,
            rq_psn: other_end.first_packet,
            max_dest_rd_atomic: nic.facts.max_reads_answered,
            min_rnr_timer: 12,
            ..Default::default()
        };
        ready_to_receive.ah_attr.port_num = port();
        ready_to_receive.ah_attr.dlid = other_end.lid;
        if other_end.gid != [0; 16] && nic.facts.link_layer == super::LinkLayer::Ethernet {
            ready_to_receive.ah_attr.is_global = 1;
            ready_to_receive.ah_attr.grh.dgid = ffi::ibv_gid { raw: other_end.gid };
            ready_to_receive.ah_attr.grh.sgid_index = nic.gid_index;
            ready_to_receive.ah_attr.grh.hop_limit = 64;
        }
        self.modify(
            &mut ready_to_receive,
            Mask::IBV_QP_STATE
                | Mask::IBV_QP_AV
                | Mask::IBV_QP_PATH_MTU
                | Mask::IBV_QP_DEST_QPN
                | Mask::IBV_QP_RQ_PSN
                | Mask::IBV_QP_MAX_DEST_RD_ATOMIC
                | Mask::IBV_QP_MIN_RNR_TIMER,
            "connect a queue pair",
        )?;
        let mut ready_to_send = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: FIRST_PACKET,
            timeout: ANSWER_TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RETRIES,
            // The other end answers so many at a time: in loopback it is this NIC, other hosts have the same kind.
            max_rd_atomic: nic.facts.max_reads.min(nic.facts.max_reads_answered),
            ..Default::default()
        };
        self.modify(
            &mut ready_to_send,
            Mask::IBV_QP_STATE
                | Mask::IBV_QP_TIMEOUT
                | Mask::IBV_QP_RETRY_CNT
                | Mask::IBV_QP_RNR_RETRY
                | Mask::IBV_QP_SQ_PSN
                | Mask::IBV_QP_MAX_QP_RD_ATOMIC,
            "start a queue pair",
        )
    }

    /// Has the NIC give back everything that is under way, as flushed, and take nothing more.
    ///
    /// # Errors
    /// [`RdmaError::Verb`], if the device is gone altogether.
    pub fn stop(&self) -> Result<(), RdmaError> {
        let mut error = ffi::ibv_qp_attr { qp_state: ffi::ibv_qp_state::IBV_QPS_ERR, ..Default::default() };
        self.modify(&mut error, Mask::IBV_QP_STATE, "stop a queue pair")
    }

    fn modify(
        &self,
        attributes: &mut ffi::ibv_qp_attr,
        mask: Mask,
        what: &'static str,
    ) -> Result<(), RdmaError> {
        // SAFETY: a live queue pair; the fields that `mask` names are set.
        let errno = unsafe { ffi::ibv_modify_qp(self.pair.as_ptr(), attributes, mask.0 as i32) };
        let nic = self.completions.nic.name.clone();
        check(errno).map_err(|source| RdmaError::Verb { nic, what, source })
    }

    /// Posts an RDMA READ. A completion comes for each, in the order of posting.
    ///
    /// # Safety
    /// * Nobody reads or writes the local bytes until the completion came, nor holds a reference to them.
    /// * They are memory that may be written, in a region that stays registered until then, or the key is wrong (which is
    ///   an outcome, not undefined behavior).
    ///
    /// # Errors
    /// [`RdmaError::Verb`] with `ENOMEM` if [`depth`](Self::depth) requests are under way.
    pub unsafe fn post_read(&self, read: &Read) -> Result<(), RdmaError> {
        let mut local = ffi::ibv_sge { addr: read.local_address, length: read.length, lkey: read.local_key };
        // SAFETY: a C struct of integers and pointers, for which zero is a value.
        let mut request: ffi::ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = read.id;
        request.sg_list = &mut local;
        request.num_sge = 1;
        request.opcode = ffi::ibv_wr_opcode::IBV_WR_RDMA_READ;
        request.send_flags = ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
        request.wr.rdma.remote_addr = read.remote_address;
        request.wr.rdma.rkey = read.remote_key;
        let mut refused = ptr::null_mut();
        let pair = self.pair.as_ptr();
        // SAFETY: a live queue pair, whose driver copies the request before it returns; `post_send` is what the driver put
        // into the device's table when it was opened. The memory is the caller's promise.
        let errno = unsafe {
            let post = (*(*pair).context).ops.post_send.expect("every driver posts");
            post(pair, &mut request, &mut refused)
        };
        let nic = &self.completions.nic.name;
        check(errno).map_err(|source| RdmaError::Verb { nic: nic.clone(), what: "post a request", source })
    }
}
