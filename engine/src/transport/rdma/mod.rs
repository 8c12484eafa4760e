//! RDMA devices through libibverbs: any that Linux has, SoftRoCE among them.
//!
//! Three small islands of unsafe code, each under a safe type: `device` opens devices, `region` registers memory, `queue`
//! makes queue pairs, posts requests and polls completions. `verbs_nic` and `mlx5_nic` are the NICs of two transports. A value
//! keeps those alive that it was made of: a region and a queue pair hold their NIC, so nothing is closed while something of
//! it is open.
//!
//! Crate `ibverbs` lists devices; it registers no memory that exists, and does no RDMA READs, so the rest calls the library by
//! `ibverbs-sys`.

mod device;
mod mlx5_nic;
mod queue;
mod region;
mod verbs_nic;

use std::io;

use thiserror::Error;

pub use device::{LinkLayer, PortFacts, RdmaDevice, device_names};
pub(super) use mlx5_nic::open_mlx5;
pub use queue::{Failure, Outcome, QueuePair, Queues, Read};
pub use region::{Access, DevicePinner, Region};
pub(super) use verbs_nic::{num_nics, open};

/// What an RDMA device refused.
#[derive(Debug, Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum RdmaError {
    #[error(
        "cannot list RDMA devices: is this kernel built with them, are the modules ib_uverbs and the NIC's own loaded?"
    )]
    List(#[source] io::Error),
    #[error("there is no RDMA device {name}: {}", known(.names))]
    NoDevice { name: String, names: Vec<String> },
    #[error("{nic}: cannot {what}")]
    Verb {
        nic: String,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("there is no RDMA device whose port is active{}", inactive(.names))]
    NoneActive { names: Vec<String> },
    #[error(
        "{nic} does not reach the GPU's memory: load nvidia-peermem, or take the open kernel modules, which have dma-bufs"
    )]
    GpuMemory {
        nic: String,
        #[source]
        source: Box<Self>,
    },
    #[error(
        "{nic}: port {port} is {state}, not active: see the cable, the switch, and for InfiniBand the subnet manager"
    )]
    PortNotActive { nic: String, port: u8, state: &'static str },
    #[error(
        "transport mlx5 needs a ConnectX NIC whose port is active: {found}; see gpuvm-graph doctor, or take transport rdma (any RDMA device) or direct"
    )]
    NoMlx5 { found: String },
    #[error(
        "transport mlx5 needs the user part of the NIC's driver, {library} (Debian: package ibverbs-providers)"
    )]
    NoLibrary {
        library: &'static str,
        #[source]
        source: libloading::Error,
    },
    #[error(
        "{nic}: this GPU sees what a NIC wrote only after a flush, which kernels cannot do: take transport rdma"
    )]
    NeedsFlush { nic: String },
    #[error("{nic}: port {port} has no address for RoCE: give its network interface an IP address")]
    NoAddress { nic: String, port: u8 },
    #[error("{nic}: {asked} {what} are asked for, it has {most}: take fewer queue pairs, or less depth")]
    TooMany { nic: String, what: &'static str, asked: u64, most: u64 },
    #[error(
        "{nic}: cannot register {bytes} bytes at {address:#x}: see the limit of locked memory (ulimit -l)"
    )]
    Register {
        nic: String,
        address: u64,
        bytes: u64,
        #[source]
        source: io::Error,
    },
}

fn inactive(names: &[String]) -> String {
    match names {
        [] => ": there is none at all on this machine".to_owned(),
        names => format!(", of {}: see cables and switches (gpuvm-graph doctor)", names.join(", ")),
    }
}

fn known(names: &[String]) -> String {
    match names {
        [] => "there is none on this machine".to_owned(),
        names => format!("there are {}", names.join(", ")),
    }
}
