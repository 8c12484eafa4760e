//! What the operating system tells of the machine. The readers take the folder that stands for `/sys`, and take what is
//! missing or makes no sense as unknown: a report on a broken machine must not break.

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::thread;

use rlimit::Resource;
use serde::Serialize;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::topology::{self, Distance, PciPlace};

/// The machine without its GPUs; what is not known is none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostFacts {
    /// Cores that this process may use: threads of the CPU device unless told otherwise.
    pub cores: usize,
    /// Memory that this process may use, by its control group if that is less than the machine has.
    pub memory: Option<HostMemory>,
    /// The most bytes that this process may lock.
    pub locked_memory: Option<LockedMemory>,
    /// `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Version of the NVIDIA driver's kernel module, if it is loaded.
    pub nvidia_module: Option<String>,
    /// Whether the module is loaded through which RDMA devices reach a GPU's memory.
    pub peer_memory_module: bool,
    pub rdma_devices: Vec<RdmaDevice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostMemory {
    pub total_bytes: u64,
    pub available_bytes: u64,
}

/// `ulimit -l`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LockedMemory {
    /// None if there is no limit.
    pub limit_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RdmaDevice {
    pub name: String,
    pub ports: Vec<RdmaPort>,
    /// As in `0000:19:00.0`; none for one that is on no bus.
    pub pci_address: Option<String>,
    pub numa_node: Option<u32>,
    /// Whether its driver registers dma-bufs; none where nobody asked.
    pub dma_buf: Option<bool>,
    /// Every GPU on the PCI buses, by address.
    pub gpus: Vec<GpuDistance>,
}

/// How far a GPU is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuDistance {
    pub pci_address: String,
    pub distance: Distance,
}

impl RdmaDevice {
    pub fn is_active(&self) -> bool {
        self.ports.iter().any(|port| port.state.as_deref() == Some("ACTIVE"))
    }
}

/// A port as the kernel describes it; what it does not tell is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RdmaPort {
    pub number: u32,
    /// `ACTIVE`, `DOWN` and others.
    pub state: Option<String>,
    /// As in `200 Gb/sec (4X HDR)`.
    pub rate: Option<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
}

impl HostFacts {
    /// What is known of this machine; `sys` is `/sys`.
    pub fn read(sys: &Path) -> Self {
        Self {
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            memory: memory(),
            locked_memory: locked_memory(),
            transparent_huge_pages: transparent_huge_pages(sys),
            nvidia_module: line(&sys.join("module/nvidia/version")),
            peer_memory_module: ["nvidia_peermem", "nv_peer_mem"]
                .iter()
                .any(|module| sys.join("module").join(module).is_dir()),
            rdma_devices: rdma_devices(sys),
        }
    }
}

fn memory() -> Option<HostMemory> {
    let ram = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(ram).ok()?;
    let (total, available) = (system.total_memory(), system.available_memory());
    Some(match system.cgroup_limits() {
        Some(limits) => HostMemory {
            total_bytes: limits.total_memory.min(total),
            // The page cache counts as used in a control group, but leaves when asked.
            available_bytes: limits.total_memory.saturating_sub(limits.rss).min(available),
        },
        None => HostMemory { total_bytes: total, available_bytes: available },
    })
}

fn locked_memory() -> Option<LockedMemory> {
    let (soft, _) = Resource::MEMLOCK.get().ok()?;
    Some(LockedMemory { limit_bytes: (soft != rlimit::INFINITY).then_some(soft) })
}

/// The first line of a file, if there is one with text in it.
fn line(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let first = text.lines().next()?.trim();
    let is_plain =
        !first.is_empty() && first.chars().all(|c| !c.is_control() && c != char::REPLACEMENT_CHARACTER);
    is_plain.then(|| first.to_owned())
}

/// The choice in brackets: `always [madvise] never`.
fn transparent_huge_pages(sys: &Path) -> Option<String> {
    let choices = line(&sys.join("kernel/mm/transparent_hugepage/enabled"))?;
    let chosen = choices.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
    (!chosen.is_empty()).then(|| chosen.to_owned())
}

fn rdma_devices(sys: &Path) -> Vec<RdmaDevice> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let devices = sys.join("class/infiniband");
    let port = |folder: &Path, name: &str| -> Option<RdmaPort> {
        let folder = folder.join(name);
        Some(RdmaPort {
            number: name.parse().ok()?,
            // As in `4: ACTIVE`.
            state: line(&folder.join("state")).map(|state| {
                state.split_once(':').map_or(state.as_str(), |(_, word)| word.trim()).to_owned()
            }),
            rate: line(&folder.join("rate")),
            link_layer: line(&folder.join("link_layer")),
        })
    };
    let gpus = topology::gpus(sys);
    let device = |name: String| {
        let ports = devices.join(&name).join("ports");
        let mut ports: Vec<_> = names(&ports).iter().filter_map(|number| port(&ports, number)).collect();
        ports.sort_by_key(|port| port.number);
        let place = PciPlace::of(&devices.join(&name).join("device"));
        let distance = |gpu: &PciPlace| {
            let (pci_address, distance) = (gpu.address.clone()?, place.distance(gpu));
            Some(GpuDistance { pci_address, distance })
        };
        RdmaDevice {
            ports,
            gpus: gpus.iter().filter_map(distance).collect(),
            pci_address: place.address.clone(),
            numa_node: place.numa_node,
            dma_buf: knows_dma_bufs(&name),
            name,
        }
    };
    names(&devices).into_iter().map(device).collect()
}

/// Whether the driver of an RDMA device registers dma-bufs: asked of libibverbs, if this build has it.
#[cfg(feature = "rdma")]
fn knows_dma_bufs(name: &str) -> Option<bool> {
    gpuvm_engine::transport::rdma::RdmaDevice::open(name).ok().map(|device| device.knows_dma_bufs())
}

#[cfg(not(feature = "rdma"))]
fn knows_dma_bufs(_name: &str) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A `/sys` with these files.
    fn sys(files: &[(&str, &[u8])]) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, bytes) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder above")).expect("made");
            fs::write(path, bytes).expect("written");
        }
        folder
    }

    fn read(files: &[(&str, &[u8])]) -> HostFacts {
        HostFacts::read(sys(files).path())
    }

    const THP: &str = "kernel/mm/transparent_hugepage/enabled";

    #[test]
    fn choice_of_huge_pages_is_the_one_in_brackets() {
        for (text, choice) in [
            ("always [madvise] never\n", Some("madvise")),
            ("[always] madvise never", Some("always")),
            ("always madvise [never]", Some("never")),
            ("always madvise never", None),
            ("[]", None),
            ("", None),
            ("\n", None),
        ] {
            assert_eq!(read(&[(THP, text.as_bytes())]).transparent_huge_pages.as_deref(), choice, "{text:?}");
        }
    }

    #[test]
    fn rdma_devices_are_listed_with_their_ports_in_order() {
        let port = "class/infiniband/mlx5_0/ports";
        let facts = read(&[
            ("class/infiniband/mlx5_1/ports/1/state", b"1: DOWN\n"),
            (&format!("{port}/2/state"), b"4: ACTIVE\n"),
            (&format!("{port}/10/state"), b"4: ACTIVE\n"),
            (&format!("{port}/2/rate"), b"200 Gb/sec (4X HDR)\n"),
            (&format!("{port}/2/link_layer"), b"InfiniBand\n"),
        ]);
        let [first, second] = &facts.rdma_devices[..] else { panic!("{facts:?}") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("mlx5_0", "mlx5_1"));
        let active = RdmaPort {
            number: 2,
            state: Some("ACTIVE".to_owned()),
            rate: Some("200 Gb/sec (4X HDR)".to_owned()),
            link_layer: Some("InfiniBand".to_owned()),
        };
        assert_eq!(first.ports[0], active);
        assert_eq!(first.ports[1].number, 10);
        let down = RdmaPort { number: 1, state: Some("DOWN".to_owned()), rate: None, link_layer: None };
        assert_eq!(second.ports, [down]);
    }

    #[test]
    fn rdma_devices_know_how_far_the_gpus_are() {
        let sys = topology::tests::two_sockets();
        let facts = HostFacts::read(sys.path());
        let names: Vec<_> = facts.rdma_devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "rxe0"]);
        let [first, .., fifth, soft] = &facts.rdma_devices[..] else { panic!("{facts:?}") };
        assert_eq!((first.pci_address.as_deref(), first.numa_node), (Some("0000:19:00.0"), Some(0)));
        assert_eq!(
            first.gpus[0],
            GpuDistance { pci_address: "0000:18:00.0".to_owned(), distance: Distance::SameSwitch }
        );
        assert_eq!((fifth.numa_node, fifth.gpus[1].distance), (Some(1), Distance::SameNode));
        assert_eq!((soft.pci_address.as_deref(), soft.gpus[0].distance), (None, Distance::Unknown));
        assert!(soft.is_active());
    }

    #[test]
    fn garbage_and_missing_files_are_unknown() {
        let facts = read(&[]);
        assert_eq!((facts.transparent_huge_pages, facts.nvidia_module), (None, None));
        assert!(facts.rdma_devices.is_empty() && !facts.peer_memory_module);

        let garbage = b"\xFF\x00\x1B[31m\n";
        let facts = read(&[
            (THP, garbage),
            ("module/nvidia/version", garbage),
            ("module/nvidia_peermem", b"a file, no folder"),
            ("class/infiniband/odd/ports/one/state", b"4: ACTIVE\n"),
            ("class/infiniband/odd/ports/1/state", garbage),
            ("class/infiniband/odd/ports/1/rate", b""),
            ("class/infiniband/odd/ports/3/state", b"ACTIVE"),
            ("class/infiniband/without_ports/fw_ver", b"1.0"),
        ]);
        assert_eq!((&facts.transparent_huge_pages, &facts.nvidia_module), (&None, &None));
        assert!(!facts.peer_memory_module);
        let [odd, without_ports] = &facts.rdma_devices[..] else { panic!("{facts:?}") };
        let states: Vec<_> = odd.ports.iter().map(|port| (port.number, port.state.as_deref())).collect();
        assert_eq!(states, [(1, None), (3, Some("ACTIVE"))]);
        assert!(without_ports.ports.is_empty());
    }

    #[test]
    fn modules_are_found_by_their_folders() {
        let facts =
            read(&[("module/nvidia/version", b"535.104.05\n"), ("module/nvidia_peermem/refcnt", b"0\n")]);
        assert_eq!(facts.nvidia_module.as_deref(), Some("535.104.05"));
        assert!(facts.peer_memory_module);
        assert!(read(&[("module/nv_peer_mem/version", b"1.1\n")]).peer_memory_module);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let facts = HostFacts::read(Path::new("/sys"));
        assert!(facts.cores > 0);
        assert!(facts.memory.is_some_and(|memory| memory.total_bytes >= memory.available_bytes), "{facts:?}");
    }
}
