//! What libmlx5, the user part of the driver of ConnectX NICs, says of the queues of a queue pair. Of its interface three
//! functions and four structs are used, declared here since no crate has them; a test compares them with the header
//! `infiniband/mlx5dv.h` where that is installed. The library is loaded when it is needed: the rest runs without it.
//!
//! Source: rdma-core, `providers/mlx5/mlx5dv.h`, and `mlx5dv_get_qp`, `mlx5dv_get_cq` in `providers/mlx5/mlx5.c`.

use std::ffi::{c_int, c_void};
use std::io;

use libloading::Library;

use super::nic_queues::{PairReport, Ring};

/// The library, by the name under which every distribution has it (Debian: package ibverbs-providers).
pub(super) const LIBRARY: &str = "libmlx5.so.1";

/// `MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ`.
const QP_AND_CQ: u64 = 1 | 2;
/// `MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE`.
const MASK_CQE_SIZE: u64 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct DvRing {
    buf: *mut c_void,
    entries: u32,
    stride: u32,
}

/// `struct mlx5dv_qp`.
#[repr(C)]
struct DvQueuePair {
    dbrec: *mut u32,
    sq: DvRing,
    rq: DvRing,
    bf_reg: *mut c_void,
    bf_size: u32,
    /// What is asked for beyond the fields above: nothing.
    comp_mask: u64,
    uar_mmap_offset: i64,
    tirn: u32,
    tisn: u32,
    rqn: u32,
    sqn: u32,
    tir_icm_addr: u64,
}

/// `struct mlx5dv_cq`.
#[repr(C)]
struct DvCompletionQueue {
    buf: *mut c_void,
    dbrec: *mut u32,
    cqe_cnt: u32,
    cqe_size: u32,
    cq_uar: *mut c_void,
    cqn: u32,
    comp_mask: u64,
}

/// `struct mlx5dv_obj`: what is asked about, and where the answer goes, of each kind of object.
#[repr(C)]
struct DvObjects {
    qp: [*mut c_void; 2],
    cq: [*mut c_void; 2],
    /// SRQ, RWQ, DM, AH, PD and, from rdma-core 46 on, DEVX objects: none.
    others: [[*mut c_void; 2]; 6],
}

/// `struct mlx5dv_cq_init_attr`.
#[repr(C)]
struct DvCompletionQueueAttributes {
    comp_mask: u64,
    cqe_comp_res_format: u8,
    flags: u32,
    cqe_size: u16,
}

/// The library, loaded.
#[derive(Debug)]
pub(super) struct Mlx5Library {
    is_supported: unsafe extern "C" fn(*mut c_void) -> bool,
    init_obj: unsafe extern "C" fn(*mut DvObjects, u64) -> c_int,
    create_cq:
        unsafe extern "C" fn(*mut c_void, *mut c_void, *mut DvCompletionQueueAttributes) -> *mut c_void,
    /// Keeps the functions where they are.
    _library: Library,
}

impl Mlx5Library {
    /// # Errors
    /// What the loader says.
    pub fn load() -> Result<Self, libloading::Error> {
        // SAFETY: the library is the NIC's driver, which libibverbs loads as well; its initializers have no preconditions.
        unsafe {
            let library = Library::new(LIBRARY)?;
            // A name without a version is that of the newest, `mlx5dv_init_obj@MLX5_1.2`.
            Ok(Self {
                is_supported: *library.get(b"mlx5dv_is_supported\0")?,
                init_obj: *library.get(b"mlx5dv_init_obj\0")?,
                create_cq: *library.get(b"mlx5dv_create_cq\0")?,
                _library: library,
            })
        }
    }

    /// Whether the device, an `ibv_device`, is one of this library's.
    ///
    /// # Safety
    /// The device is one of libibverbs.
    pub unsafe fn is_supported(&self, device: *mut c_void) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (self.is_supported)(device) }
    }

    /// A completion queue of 64-byte entries, whatever `MLX5_CQE_SIZE` says: an `ibv_cq`.
    ///
    /// # Safety
    /// An open `ibv_context` of a device that [is supported](Self::is_supported), and an `ibv_cq_init_attr_ex` for it.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn create_completion_queue(
        &self,
        context: *mut c_void,
        attributes: *mut c_void,
    ) -> io::Result<*mut c_void> {
        let mut own = DvCompletionQueueAttributes {
            comp_mask: MASK_CQE_SIZE,
            cqe_comp_res_format: 0,
            flags: 0,
            cqe_size: 64,
        };
        // SAFETY: the caller's promise; the function reads both structs and keeps neither.
        let queue = unsafe { (self.create_cq)(context, attributes, &mut own) };
        if queue.is_null() { Err(io::Error::last_os_error()) } else { Ok(queue) }
    }

    /// Where the queues of this `ibv_qp` with the number `number` and of its `ibv_cq` are. From here on the completion queue
    /// is the caller's: libibverbs must not poll it any more.
    ///
    /// # Safety
    /// Both live, of a device that [is supported](Self::is_supported).
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn report(
        &self,
        number: u32,
        queue_pair: *mut c_void,
        completion_queue: *mut c_void,
    ) -> io::Result<PairReport> {
        // SAFETY: structs of integers and pointers, for which zero is a value.
        let (mut qp, mut cq): (DvQueuePair, DvCompletionQueue) = unsafe { std::mem::zeroed() };
        let mut objects = DvObjects {
            qp: [queue_pair, (&raw mut qp).cast()],
            cq: [completion_queue, (&raw mut cq).cast()],
            others: [[std::ptr::null_mut(); 2]; 6],
        };
        // SAFETY: the caller's promise; the function fills in the two structs whose kinds are named.
        let errno = unsafe { (self.init_obj)(&mut objects, QP_AND_CQ) };
        if errno != 0 {
            return Err(io::Error::from_raw_os_error(errno.abs()));
        }
        Ok(pair_report(number, &qp, &cq))
    }
}

fn pair_report(number: u32, qp: &DvQueuePair, cq: &DvCompletionQueue) -> PairReport {
    let address = |pointer: *mut c_void| pointer.expose_provenance() as u64;
    PairReport {
        number,
        send: Ring { address: address(qp.sq.buf), num_entries: qp.sq.entries, entry_bytes: qp.sq.stride },
        completions: Ring { address: address(cq.buf), num_entries: cq.cqe_cnt, entry_bytes: cq.cqe_size },
        doorbell_record: address(qp.dbrec.cast()),
        register: address(qp.bf_reg),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::process::Command;
    use std::{fs, path::Path};

    use super::*;

    const LAYOUT_OF_THE_HEADER: &str = r#"
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdio.h>
int main(void) {
  printf("qp %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu\n", sizeof(struct mlx5dv_qp), offsetof(struct mlx5dv_qp, dbrec),
         offsetof(struct mlx5dv_qp, sq.buf), offsetof(struct mlx5dv_qp, sq.wqe_cnt), offsetof(struct mlx5dv_qp, sq.stride),
         offsetof(struct mlx5dv_qp, rq.buf), offsetof(struct mlx5dv_qp, bf.reg), offsetof(struct mlx5dv_qp, bf.size),
         offsetof(struct mlx5dv_qp, comp_mask), offsetof(struct mlx5dv_qp, tir_icm_addr));
  printf("cq %zu %zu %zu %zu %zu %zu\n", sizeof(struct mlx5dv_cq), offsetof(struct mlx5dv_cq, buf),
         offsetof(struct mlx5dv_cq, dbrec), offsetof(struct mlx5dv_cq, cqe_cnt), offsetof(struct mlx5dv_cq, cqe_size),
         offsetof(struct mlx5dv_cq, comp_mask));
  printf("cq_attributes %zu %zu %zu\n", sizeof(struct mlx5dv_cq_init_attr),
         offsetof(struct mlx5dv_cq_init_attr, comp_mask), offsetof(struct mlx5dv_cq_init_attr, cqe_size));
  printf("objects %zu %zu %zu %zu %d\n", offsetof(struct mlx5dv_obj, qp.in), offsetof(struct mlx5dv_obj, qp.out),
         offsetof(struct mlx5dv_obj, cq.in), offsetof(struct mlx5dv_obj, cq.out), (int)sizeof(struct mlx5dv_obj) <= 128);
  printf("flags %d %d\n", MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ, MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE);
  return 0;
}
"#;

    #[test]
    fn structs_are_laid_out_as_in_the_header_of_libmlx5() {
        let name = "structs_are_laid_out_as_in_the_header_of_libmlx5";
        if !Path::new("/usr/include/infiniband/mlx5dv.h").exists() {
            println!("skipped: {name}: infiniband/mlx5dv.h is not installed (libibverbs-dev has it)");
            return;
        }
        let folder = std::env::temp_dir().join(format!("gpuvm-mlx5dv-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (source, program) = (folder.join("layout.c"), folder.join("layout"));
        fs::write(&source, LAYOUT_OF_THE_HEADER).expect("written");
        let compiled = Command::new("cc").arg("-w").arg(&source).arg("-o").arg(&program).output();
        let compiled = compiled.expect("a C compiler, which building the CPU device takes as well");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let output = Command::new(&program).output().expect("it starts");
        fs::remove_dir_all(&folder).expect("removed");
        let ring = offset_of!(DvQueuePair, sq);
        let expected = [
            format!(
                "qp {} {} {} {} {} {} {} {} {} {}",
                size_of::<DvQueuePair>(),
                offset_of!(DvQueuePair, dbrec),
                ring + offset_of!(DvRing, buf),
                ring + offset_of!(DvRing, entries),
                ring + offset_of!(DvRing, stride),
                offset_of!(DvQueuePair, rq),
                offset_of!(DvQueuePair, bf_reg),
                offset_of!(DvQueuePair, bf_size),
                offset_of!(DvQueuePair, comp_mask),
                offset_of!(DvQueuePair, tir_icm_addr),
            ),
            format!(
                "cq {} {} {} {} {} {}",
                size_of::<DvCompletionQueue>(),
                offset_of!(DvCompletionQueue, buf),
                offset_of!(DvCompletionQueue, dbrec),
                offset_of!(DvCompletionQueue, cqe_cnt),
                offset_of!(DvCompletionQueue, cqe_size),
                offset_of!(DvCompletionQueue, comp_mask),
            ),
            format!(
                "cq_attributes {} {} {}",
                size_of::<DvCompletionQueueAttributes>(),
                offset_of!(DvCompletionQueueAttributes, comp_mask),
                offset_of!(DvCompletionQueueAttributes, cqe_size),
            ),
            format!(
                "objects {} {} {} {} {}",
                offset_of!(DvObjects, qp),
                offset_of!(DvObjects, qp) + 8,
                offset_of!(DvObjects, cq),
                offset_of!(DvObjects, cq) + 8,
                u8::from(size_of::<DvObjects>() == 128),
            ),
            format!("flags {QP_AND_CQ} {MASK_CQE_SIZE}"),
        ];
        let text = String::from_utf8(output.stdout).expect("numbers");
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn library_has_the_functions_where_it_is_installed() {
        match Mlx5Library::load() {
            Ok(_) => {}
            Err(error @ libloading::Error::DlOpen { .. }) => {
                println!("skipped: library_has_the_functions_where_it_is_installed: {error}");
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn report_takes_the_send_queue_and_not_the_receive_queue() {
        let at = |address: usize| std::ptr::without_provenance_mut::<c_void>(address);
        // SAFETY: structs of integers and pointers, for which zero is a value.
        let (mut qp, mut cq): (DvQueuePair, DvCompletionQueue) = unsafe { std::mem::zeroed() };
        qp.dbrec = at(0x1000).cast();
        qp.rq = DvRing { buf: at(0x2000), entries: 4, stride: 16 };
        qp.sq = DvRing { buf: at(0x2040), entries: 256, stride: 64 };
        (qp.bf_reg, qp.bf_size) = (at(0x3800), 256);
        (cq.buf, cq.dbrec, cq.cqe_cnt, cq.cqe_size) = (at(0x4000), at(0x5000).cast(), 512, 64);
        let expected = PairReport {
            number: 0x123,
            send: Ring { address: 0x2040, num_entries: 256, entry_bytes: 64 },
            completions: Ring { address: 0x4000, num_entries: 512, entry_bytes: 64 },
            doorbell_record: 0x1000,
            register: 0x3800,
        };
        assert_eq!(pair_report(0x123, &qp, &cq), expected);
    }
}
