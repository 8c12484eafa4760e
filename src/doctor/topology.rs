//! Where RDMA devices and GPUs are on the PCI buses, from the kernel's own tree of devices, and how far apart.

use std::fs;
use std::path::{Component, Path};

use serde::Serialize;

/// What lies between an RDMA device and a GPU, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    /// A PCIe switch: what one writes to the other does not reach the processor.
    SameSwitch,
    /// A root complex: it passes through the processor, by one of its bridges.
    SameRootComplex,
    /// Two root complexes of one NUMA node.
    SameNode,
    /// The link between NUMA nodes.
    AcrossNodes,
    /// The kernel does not tell.
    Unknown,
}

impl Distance {
    pub fn words(self) -> &'static str {
        match self {
            Self::SameSwitch => "same switch",
            Self::SameRootComplex => "same root complex",
            Self::SameNode => "same NUMA node",
            Self::AcrossNodes => "across NUMA nodes",
            Self::Unknown => "distance unknown",
        }
    }
}

/// A device's place on the PCI buses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciPlace {
    /// `0000:65:00.0`; none for one that is on no bus, as SoftRoCE.
    pub address: Option<String>,
    /// None if the machine has only one, or the kernel does not tell.
    pub numa_node: Option<u32>,
    /// The root complex (`pci0000:60`), then bridge after bridge, then the device.
    path: Vec<String>,
}

impl PciPlace {
    /// The place of the device whose folder this is, or leads to.
    pub fn of(folder: &Path) -> Self {
        let Ok(folder) = folder.canonicalize() else { return Self::default() };
        let names = folder.components().filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        });
        let path: Vec<String> = names.skip_while(|name| !is_root_complex(name)).map(str::to_owned).collect();
        // A device may be a folder or two below its PCI function.
        let path: Vec<_> = path
            .into_iter()
            .enumerate()
            .take_while(|(i, name)| *i == 0 || is_address(name))
            .map(|(_, name)| name)
            .collect();
        let address = (path.len() > 1).then(|| path.last().cloned()).flatten();
        let node = fs::read_to_string(folder.join("numa_node")).ok();
        // The kernel writes -1 where it does not know.
        Self { address, numa_node: node.and_then(|node| node.trim().parse().ok()), path }
    }

    /// How far it is to another device.
    pub fn distance(&self, other: &Self) -> Distance {
        let shared = self.path.iter().zip(&other.path).take_while(|(a, b)| a == b).count();
        match (shared, self.numa_node, other.numa_node) {
            _ if self.address.is_none() || other.address.is_none() => Distance::Unknown,
            // The root complex and one of its ports at least: then there is a switch behind that port.
            (2.., ..) => Distance::SameSwitch,
            (1, ..) => Distance::SameRootComplex,
            (_, Some(a), Some(b)) if a == b => Distance::SameNode,
            (_, Some(_), Some(_)) => Distance::AcrossNodes,
            _ => Distance::Unknown,
        }
    }
}

fn is_hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `pci0000:60`
fn is_root_complex(name: &str) -> bool {
    name.strip_prefix("pci").and_then(|name| name.split_once(':')).is_some_and(|(domain, bus)| {
        domain.len() >= 4 && is_hexadecimal(domain, domain.len()) && is_hexadecimal(bus, 2)
    })
}

/// `0000:65:00.0`
fn is_address(name: &str) -> bool {
    let mut parts = name.split([':', '.']);
    let mut next = |least, most| {
        parts
            .next()
            .is_some_and(|part| (least..=most).contains(&part.len()) && is_hexadecimal(part, part.len()))
    };
    next(4, 8) && next(2, 2) && next(2, 2) && next(1, 1) && parts.next().is_none()
}

/// Every NVIDIA GPU on the PCI buses, with or without a driver, by address; `sys` is `/sys`.
pub fn gpus(sys: &Path) -> Vec<PciPlace> {
    let entries = fs::read_dir(sys.join("bus/pci/devices")).into_iter().flatten().flatten();
    let mut gpus: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|folder| {
            let number =
                |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_owned();
            // A display controller, VGA or 3D.
            number("vendor") == "0x10de" && number("class").starts_with("0x03")
        })
        .map(|folder| PciPlace::of(&folder))
        .filter(|place| place.address.is_some())
        .collect();
    gpus.sort_by(|a, b| a.address.cmp(&b.address));
    gpus
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A tree as the kernel shows it: two sockets; on the first a switch with a GPU and two NICs behind it, a NIC at another
    /// port of the same root complex and one at another root complex; on the second a GPU and a NIC; and SoftRoCE.
    pub fn two_sockets() -> TempDir {
        let sys = tempfile::tempdir().expect("a folder");
        let root = sys.path();
        let switch = "pci0000:15/0000:15:01.0/0000:16:00.0";
        let devices = [
            ("gpu", format!("{switch}/0000:17:00.0/0000:18:00.0"), 0),
            ("mlx5_0", format!("{switch}/0000:17:01.0/0000:19:00.0"), 0),
            ("mlx5_1", format!("{switch}/0000:17:01.0/0000:19:00.1"), 0),
            ("mlx5_2", "pci0000:15/0000:15:03.0/0000:1a:00.0".to_owned(), 0),
            ("mlx5_3", "pci0000:26/0000:26:01.0/0000:27:00.0".to_owned(), 0),
            ("gpu", "pci0000:b7/0000:b7:01.0/0000:b8:00.0".to_owned(), 1),
            ("mlx5_4", "pci0000:c7/0000:c7:01.0/0000:c8:00.0".to_owned(), 1),
        ];
        let infiniband = root.join("class/infiniband");
        fs::create_dir_all(&infiniband).expect("made");
        fs::create_dir_all(root.join("bus/pci/devices")).expect("made");
        let write = |folder: &Path, file: &str, text: &str| {
            fs::create_dir_all(folder).expect("made");
            fs::write(folder.join(file), text).expect("written");
        };
        for (name, path, node) in devices {
            let folder = root.join("devices").join(&path);
            write(&folder, "numa_node", &format!("{node}\n"));
            let is_gpu = name == "gpu";
            write(&folder, "vendor", if is_gpu { "0x10de\n" } else { "0x15b3\n" });
            write(&folder, "class", if is_gpu { "0x030200\n" } else { "0x020700\n" });
            symlink(&folder, root.join("bus/pci/devices").join(folder.file_name().expect("a name")))
                .expect("linked");
            if !is_gpu {
                let device = folder.join("infiniband").join(name);
                write(&device.join("ports/1"), "state", "4: ACTIVE\n");
                symlink(&folder, device.join("device")).expect("linked");
                symlink(&device, infiniband.join(name)).expect("linked");
            }
        }
        write(&root.join("devices/virtual/infiniband/rxe0/ports/1"), "state", "4: ACTIVE\n");
        symlink(root.join("devices/virtual/infiniband/rxe0"), infiniband.join("rxe0")).expect("linked");
        sys
    }

    #[test]
    fn gpus_are_found_on_the_buses_with_their_node() {
        let sys = two_sockets();
        let gpus = gpus(sys.path());
        let found: Vec<_> = gpus.iter().map(|gpu| (gpu.address.as_deref(), gpu.numa_node)).collect();
        assert_eq!(found, [(Some("0000:18:00.0"), Some(0)), (Some("0000:b8:00.0"), Some(1))]);
    }

    #[test]
    fn distance_is_what_lies_between() {
        let sys = two_sockets();
        let gpus = gpus(sys.path());
        let place = |name: &str| PciPlace::of(&sys.path().join("class/infiniband").join(name).join("device"));
        let distances = |name: &str| [place(name).distance(&gpus[0]), place(name).distance(&gpus[1])];
        use Distance::*;
        assert_eq!(distances("mlx5_0"), [SameSwitch, AcrossNodes]);
        assert_eq!(distances("mlx5_1"), [SameSwitch, AcrossNodes]);
        assert_eq!(distances("mlx5_2"), [SameRootComplex, AcrossNodes]);
        assert_eq!(distances("mlx5_3"), [SameNode, AcrossNodes]);
        assert_eq!(distances("mlx5_4"), [AcrossNodes, SameNode]);
        assert_eq!(distances("rxe0"), [Unknown, Unknown]);
    }

    #[test]
    fn machine_of_one_node_has_unknown_distances_only_across_root_complexes() {
        let sys = two_sockets();
        for folder in ["pci0000:15/0000:15:03.0/0000:1a:00.0", "pci0000:26/0000:26:01.0/0000:27:00.0"] {
            fs::write(sys.path().join("devices").join(folder).join("numa_node"), "-1\n").expect("written");
        }
        let gpu = &gpus(sys.path())[0];
        let place = |name: &str| PciPlace::of(&sys.path().join("class/infiniband").join(name).join("device"));
        assert_eq!(place("mlx5_2").distance(gpu), Distance::SameRootComplex);
        assert_eq!((place("mlx5_3").numa_node, place("mlx5_3").distance(gpu)), (None, Distance::Unknown));
    }

    #[test]
    fn names_that_are_no_addresses_end_the_path() {
        for good in ["0000:65:00.0", "10000:01:00.7", "0000:ff:1f.0"] {
            assert!(is_address(good), "{good}");
        }
        for bad in ["", "infiniband", "0000:65:00", "0000:65:00.0.1", "000:65:00.0", "0000:6g:00.0", "nvme0"]
        {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(is_root_complex("pci0000:60") && is_root_complex("pci10000:00"));
        assert!(!is_root_complex("pci") && !is_root_complex("pci0000") && !is_root_complex("pci0000:600"));
    }
}
