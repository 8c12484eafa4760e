//! Every setting of a run, each checked against the others once, before anything is allocated.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use gpuvm_kernels::cpu_device::WarpLanes;
use serde::Serialize;

use crate::error::Error;
use crate::graph::Heads;
use crate::transport::TransportConfig;

/// Bytes of a page and of its frame: a power of two from 4 KiB to 1 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PageSize(u64);

impl PageSize {
    /// A page of `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::PageSize`] unless `bytes` is a power of two from 4 KiB to 1 MiB.
    pub fn new(bytes: u64) -> Result<Self, Error> {
        if bytes.is_power_of_two() && (4 << 10..=1 << 20).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(Error::PageSize { bytes })
        }
    }

    /// Bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// Binary logarithm of the bytes.
    pub fn shift(self) -> u32 {
        self.0.trailing_zeros()
    }
}

impl Default for PageSize {
    /// 8 KiB, as in the paper.
    fn default() -> Self {
        Self(8 << 10)
    }
}

macro_rules! named_choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)* }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name that is typed and printed.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|choice| choice.name() == text).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|choice| choice.name()).collect();
                    format!("'{text}' is none of {}", names.join(", "))
                })
            }
        }
    };
}

named_choice! {
    /// How kernels reach the edges.
    Access {
        /// Through the page table: pages come on demand and leave when frames are short.
        Paged = "paged",
        /// Straight from host memory, nothing copied.
        ZeroCopy = "zero-copy",
        /// All edges are copied to the device before the run.
        Resident = "resident",
        /// Through the driver's own unified memory (UVM): a baseline, on GPUs only.
        Managed = "managed",
        /// The same, with the advice that the edges are only read.
        ManagedReadMostly = "managed-read-mostly",
    }
}

named_choice! {
    /// How work is cut.
    Variant {
        /// A lane a row, all rows in every step: the plain CSR scan of the paper.
        Naive = "naive",
        /// Chunks of even size, the frontier's only or, when it is large, segment after segment: Balanced CSR.
        Balanced = "balanced",
    }
}

named_choice! {
    /// Which page leaves when a frame is needed.
    Policy {
        /// The one that came first, as in the paper.
        Fifo = "fifo",
        /// The same, but a page used since the hand passed last is spared once.
        Clock = "clock",
        /// While a step scans all segments (and always, for kernels of one's own) most frames keep their page, and pages
        /// are evicted from the others, first come first out; sparse steps evict from all. A scan that is longer than the
        /// frames has every page leave just before it comes back, under the other two.
        PinnedShare = "pinned-share",
    }
}

named_choice! {
    /// Who looks for whom in the steps of BFS; without parents, where every edge has its reverse. Elsewhere all push.
    Directions {
        /// Whichever is to fetch and look at less, step by step.
        Auto = "auto",
        /// The frontier's vertices look at their edges.
        Push = "push",
        /// Unvisited vertices look for the frontier, in every step but the first.
        Pull = "pull",
    }
}

named_choice! {
    /// Whether BFS, of one source or a batch, may read lines of 128 bytes from host memory instead of pages, under access
    /// `paged` with transport `direct`.
    Lines {
        /// Where a step wants few edges of a page that is not resident, as long as the frontier grows and in pulls.
        Auto = "auto",
        /// Every edge comes in its page.
        Never = "never",
    }
}

named_choice! {
    /// Who moves a page that is not resident.
    TransportKind {
        /// The warp that wants it, by loads from host memory; there are no queues.
        Direct = "direct",
        /// Host threads that stand for RNICs.
        Host = "host",
        /// Warps of the device that stand for RNICs.
        Device = "device",
        /// RDMA devices, through libibverbs; a host thread posts what kernels queued.
        Rdma = "rdma",
        /// ConnectX NICs, whose own queues kernels write.
        Mlx5 = "mlx5",
    }
}

named_choice! {
    /// Who rings the doorbells of transport `mlx5`.
    Doorbell {
        /// A host thread a NIC, for kernels.
        Assisted = "assisted",
        /// Kernels, on a GPU whose driver maps the NIC's register; where it does not, a host thread does.
        Direct = "direct",
    }
}

/// Where kernels run: `cpu`, or `cuda:N`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceKind {
    /// CPU threads, each a warp.
    #[default]
    Cpu,
    /// The GPU of this number, as the CUDA driver counts.
    Cuda(u32),
}

impl DeviceKind {
    /// The first GPU, or the CPU device where there is no driver or no GPU.
    pub fn detect() -> Self {
        if crate::device::has_gpu() { Self::Cuda(0) } else { Self::Cpu }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("'{text}' is no device, use cpu, cuda or cuda:N");
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cuda", ordinal)) => ordinal.parse().map(Self::Cuda).map_err(|_| refused()),
            _ => Err(refused()),
        }
    }
}

impl Serialize for DeviceKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Settings of an [`Engine`](crate::Engine).
///
/// ```
/// use gpuvm_engine::{Access, EngineConfig, PageSize};
/// let config = EngineConfig {
///     gpu_mem: Some(64 << 20),
///     access: Some(Access::Paged),
///     page_size: PageSize::new(4096)?,
///     ..EngineConfig::default()
/// };
/// # Ok::<(), gpuvm_engine::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where kernels run.
    pub device: DeviceKind,
    /// Threads of the CPU device, each a warp; `None` for one a core.
    pub threads: Option<usize>,
    /// Bytes of device memory that the run may take in all; `None` for what is free, less a reserve.
    pub gpu_mem: Option<u64>,
    /// How edges are reached; `None` lets the plan choose, which says why.
    pub access: Option<Access>,
    /// Bytes of a page.
    pub page_size: PageSize,
    /// How work is cut.
    pub variant: Variant,
    /// Which page leaves when a frame is needed.
    pub policy: Policy,
    /// Who looks for whom in BFS.
    pub directions: Directions,
    /// Whether BFS may read lines instead of pages.
    pub lines: Lines,
    /// Heads of a vertex, a power of two up to 16, that preparing a graph makes if the graph has none, the workload uses
    /// them, and they take a quarter of the bytes of all edges at most, or every step is to pull; 0 to use none, even if the
    /// graph has them.
    pub heads: u32,
    /// Edges of a segment, a power of two; `None` for those of a page.
    pub chunk_edges: Option<u32>,
    /// Who moves the pages of access `paged`, which any other transport than `direct` implies.
    pub transport: TransportConfig,
    /// A fault that takes longer is an error, not a hang.
    pub stuck_after: Duration,
    /// Lanes of a warp of the CPU device.
    #[doc(hidden)]
    pub warp_lanes: WarpLanes,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            device: DeviceKind::Cpu,
            threads: None,
            gpu_mem: None,
            access: None,
            page_size: PageSize::default(),
            variant: Variant::Balanced,
            policy: Policy::PinnedShare,
            directions: Directions::Auto,
            lines: Lines::Auto,
            heads: Heads::DEFAULT,
            chunk_edges: None,
            transport: TransportConfig::default(),
            // A page from a slow network file may take seconds.
            stuck_after: Duration::from_secs(60),
            warp_lanes: WarpLanes::One,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_is_a_power_of_two_from_4_kib_to_1_mib() {
        for good in [4096, 8192, 65536, 1 << 20] {
            assert_eq!(PageSize::new(good).expect("allowed").bytes(), good);
        }
        for bad in [0, 1, 2048, 5000, 12288, 1 << 21] {
            assert!(matches!(PageSize::new(bad), Err(Error::PageSize { bytes }) if bytes == bad));
        }
    }

    #[test]
    fn choices_are_read_by_the_names_they_print() {
        for &access in Access::ALL {
            assert_eq!(access.name().parse(), Ok(access));
        }
        assert_eq!("lru".parse::<Policy>(), Err("'lru' is none of fifo, clock, pinned-share".to_owned()));
    }
}
