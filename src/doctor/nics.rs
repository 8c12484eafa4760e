//! Verdicts on RDMA devices: their ports, and which of them should serve which GPU.

use super::findings::Finding;
use super::host::{RdmaDevice, RdmaPort};
use super::topology::Distance;

/// Each device, then each GPU with the devices that are best for it.
pub fn findings(devices: &[RdmaDevice]) -> Vec<Finding> {
    if devices.is_empty() {
        return vec![Finding::ok("rdma", "no RDMA device; pages do not need one")];
    }
    let mut findings: Vec<_> = devices.iter().map(device).collect();
    // Every device knows all GPUs, in the same order.
    let num_gpus = devices.first().map_or(0, |device| device.gpus.len());
    findings.extend((0..num_gpus).map(|gpu| best_for(gpu, devices)));
    findings
}

fn port(port: &RdmaPort) -> String {
    let [state, rate, layer] = [&port.state, &port.rate, &port.link_layer]
        .map(|text| text.clone().unwrap_or_else(|| "?".to_owned()));
    format!("port {} {state}, {rate}, {layer}", port.number)
}

fn device(device: &RdmaDevice) -> Finding {
    let mut fact = match device.ports.is_empty() {
        true => format!("{}, no port known", device.name),
        false => format!("{}: {}", device.name, device.ports.iter().map(port).collect::<Vec<_>>().join("; ")),
    };
    if let Some(node) = device.numa_node {
        fact += &format!(", NUMA node {node}");
    }
    if let Some(dma_buf) = device.dma_buf {
        fact += &format!(", dma-buf: {}", if dma_buf { "yes" } else { "no" });
    }
    if device.is_active() {
        return Finding::ok("rdma", fact);
    }
    Finding::note(
        "rdma",
        fact,
        "no port is active: see the cable, the switch, and for InfiniBand the subnet manager",
    )
}

/// Which devices should serve GPU number `gpu` of the PCI buses, and why.
fn best_for(gpu: usize, devices: &[RdmaDevice]) -> Finding {
    let topic = "nics";
    let address = &devices[0].gpus[gpu].pci_address;
    let distance = |device: &RdmaDevice| device.gpus.get(gpu).map_or(Distance::Unknown, |gpu| gpu.distance);
    let of_gpu = |text: String| format!("GPU {address}: {text}");
    let active: Vec<_> = devices.iter().filter(|device| device.is_active()).collect();
    let Some(nearest) = active.iter().map(|device| distance(device)).min() else {
        return Finding::ok(topic, of_gpu("no RDMA device with an active port".to_owned()));
    };
    let names: Vec<_> = active
        .iter()
        .filter(|device| distance(device) == nearest)
        .map(|device| device.name.as_str())
        .collect();
    let names = names.join(",");
    let fact = of_gpu(format!("--nics {names} ({})", nearest.words()));
    match nearest {
        Distance::SameSwitch | Distance::SameRootComplex => Finding::ok(topic, fact),
        Distance::SameNode => Finding::note(
            topic,
            fact,
            "pages cross from one root complex to another: NICs behind the GPU's own root complex, or a switch with it, \
             would be faster",
        ),
        Distance::AcrossNodes => Finding::note(
            topic,
            fact,
            "pages cross the link between the sockets, which others use as well: put a NIC into a slot of the GPU's socket, \
             or let pages come without RDMA (--transport direct)",
        ),
        Distance::Unknown => Finding::ok(topic, fact),
    }
}

#[cfg(test)]
mod tests {
    use super::super::findings::Verdict;
    use super::super::host::HostFacts;
    use super::super::topology::tests::two_sockets;
    use super::*;

    fn devices() -> Vec<RdmaDevice> {
        HostFacts::read(two_sockets().path()).rdma_devices
    }

    fn of_gpus(devices: &[RdmaDevice]) -> Vec<Finding> {
        findings(devices).into_iter().filter(|finding| finding.topic == "nics").collect()
    }

    #[test]
    fn gpu_is_served_by_the_nics_behind_its_own_switch() {
        let [first, second] = &of_gpus(&devices())[..] else { panic!("two GPUs") };
        assert_eq!(first.fact, "GPU 0000:18:00.0: --nics mlx5_0,mlx5_1 (same switch)");
        assert_eq!(first.verdict, Verdict::Ok);
        assert_eq!(second.fact, "GPU 0000:b8:00.0: --nics mlx5_4 (same NUMA node)");
        assert_eq!(second.verdict, Verdict::Note);
        assert!(second.advice.as_ref().is_some_and(|advice| advice.contains("root complex")));
    }

    #[test]
    fn nic_without_an_active_port_serves_nobody() {
        let mut devices = devices();
        for device in &mut devices[..2] {
            device.ports[0].state = Some("DOWN".to_owned());
        }
        assert_eq!(of_gpus(&devices)[0].fact, "GPU 0000:18:00.0: --nics mlx5_2 (same root complex)");
        devices[2].ports.clear();
        devices[3].ports.clear();
        let across = &of_gpus(&devices)[0];
        assert_eq!(across.fact, "GPU 0000:18:00.0: --nics mlx5_4 (across NUMA nodes)");
        assert!(across.advice.as_ref().is_some_and(|advice| advice.contains("--transport direct")));
        devices[4].ports.clear();
        assert_eq!(of_gpus(&devices)[0].fact, "GPU 0000:18:00.0: --nics rxe0 (distance unknown)");
        devices[5].ports.clear();
        assert_eq!(of_gpus(&devices)[0].fact, "GPU 0000:18:00.0: no RDMA device with an active port");
    }

    #[test]
    fn device_tells_its_node_and_whether_its_driver_knows_dma_bufs() {
        let mut devices = devices();
        devices[0].dma_buf = Some(true);
        assert!(findings(&devices)[0].fact.ends_with(", NUMA node 0, dma-buf: yes"));
        assert_eq!(findings(&[])[0].fact, "no RDMA device; pages do not need one");
    }
}
