//! Verdicts: each a function of facts alone.

use bytesize::ByteSize;
use gpuvm_engine::{GpuFacts, PcieLink, Version};
use serde::Serialize;

use super::host::HostFacts;
use super::nics;
use super::{Facts, Gpu, Rate, Rates};
use crate::report::count;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Slower than it could be, or something is not possible that not every run needs.
    Note,
    /// Runs fail.
    Problem,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// A fact, what it means, and what to do.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    pub topic: &'static str,
    pub verdict: Verdict,
    pub fact: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(topic: &'static str, fact: impl Into<String>) -> Self {
        Self { topic, verdict: Verdict::Ok, fact: fact.into(), advice: None }
    }

    pub fn note(topic: &'static str, fact: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { topic, verdict: Verdict::Note, fact: fact.into(), advice: Some(advice.into()) }
    }

    pub fn problem(topic: &'static str, fact: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { topic, verdict: Verdict::Problem, fact: fact.into(), advice: Some(advice.into()) }
    }
}

/// What drivers from 525 on speak, and the kernels are made for.
const LEAST_CUDA: Version = Version::new(12, 0);
const LEAST_DRIVER: u32 = 525;
/// The oldest GPUs whose atomics have orders and scopes.
const LEAST_CAPABILITY: Version = Version::new(7, 0);
const UPDATE: &str = "update the NVIDIA driver to 525 or newer";

/// All verdicts, the GPU's first.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let host = &facts.host;
    let mut findings = Vec::new();
    match &facts.gpu {
        Gpu::NotAsked => findings.push(Finding::ok("gpu", "not looked at, as asked")),
        Gpu::Missing { reason } => findings.push(no_gpu(reason, host)),
        Gpu::Found { facts: gpu } => {
            findings.extend([gpu_itself(gpu), driver(gpu, host), gpu_memory(gpu)]);
            findings.push(pcie(&gpu.pcie));
            findings.push(copy_rate(&facts.rates, &gpu.pcie));
            findings.extend([
                pull_rate(&facts.rates),
                bar1(gpu),
                gpu_direct(gpu, host),
                cooperative_launch(gpu),
                managed(gpu),
                registration(gpu),
            ]);
        }
    }
    findings.extend(nics::findings(&host.rdma_devices));
    findings.extend([locked_memory(host), huge_pages(host), host_memory(host), cpu_device(facts)]);
    findings
}

/// The first number of a driver's version: 535 of `535.104.05`.
fn driver_number(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

fn no_gpu(reason: &str, host: &HostFacts) -> Finding {
    match &host.nvidia_module {
        Some(version) if driver_number(version).is_some_and(|number| number < LEAST_DRIVER) => {
            Finding::problem(
                "gpu",
                format!("none can be used ({reason}), the NVIDIA driver is {version}"),
                UPDATE,
            )
        }
        Some(version) => Finding::problem(
            "gpu",
            format!("none can be used ({reason}), though the kernel has the NVIDIA driver {version}"),
            "see that nvidia-smi works; in a container, start it with the GPUs (docker run --gpus all)",
        ),
        None => Finding::note(
            "gpu",
            format!("none can be used: {reason}"),
            "runs take the CPU device; for a GPU install the NVIDIA driver, 525 or newer",
        ),
    }
}

fn gpu_itself(gpu: &GpuFacts) -> Finding {
    let fact = format!(
        "number {}: {}, compute capability {}, {}",
        gpu.ordinal,
        gpu.name,
        gpu.compute_capability,
        count(gpu.multiprocessors.into(), "multiprocessor", "multiprocessors")
    );
    if gpu.compute_capability < LEAST_CAPABILITY {
        let advice =
            format!("kernels need compute capability {LEAST_CAPABILITY}: use --device cpu or a newer GPU");
        return Finding::problem("gpu", fact, advice);
    }
    Finding::ok("gpu", fact)
}

fn driver(gpu: &GpuFacts, host: &HostFacts) -> Finding {
    let version = gpu.driver_version.as_ref().or(host.nvidia_module.as_ref());
    let name = version.map_or("of unknown version", String::as_str);
    let fact = format!("{name}, speaks CUDA {}", gpu.cuda_version);
    match version.and_then(|version| driver_number(version)) {
        _ if gpu.cuda_version < LEAST_CUDA => Finding::problem("driver", fact, UPDATE),
        // A library for compatibility lets an old driver speak a newer CUDA.
        Some(number) if number < LEAST_DRIVER => Finding::note("driver", fact, UPDATE),
        _ => Finding::ok("driver", fact),
    }
}

fn gpu_memory(gpu: &GpuFacts) -> Finding {
    let (total, free) = (gpu.memory.total_bytes, gpu.memory.free_bytes);
    let fact = format!("{}, {} free", ByteSize::b(total), ByteSize::b(free));
    if free < total / 2 {
        return Finding::note(
            "memory",
            fact,
            "others use most of it (nvidia-smi lists them), so runs page more than they need",
        );
    }
    Finding::ok("memory", fact)
}

fn pcie(link: &PcieLink) -> Finding {
    let shown = |number: Option<u32>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
    if *link == PcieLink::default() {
        return Finding::note(
            "pcie",
            "unknown: the driver's management library (NVML) tells nothing",
            "where libnvidia-ml.so.1 is missing, install it; virtual machines may hide the link",
        );
    }
    let fact = format!(
        "generation {} of {}, {} of {} lanes",
        shown(link.generation),
        shown(link.max_generation),
        shown(link.width),
        shown(link.max_width)
    );
    if link.width.zip(link.max_width).is_some_and(|(width, most)| width < most) {
        return Finding::note(
            "pcie",
            fact,
            "fewer lanes than GPU and machine can do bound every run that pages: see the slot, risers and the BIOS",
        );
    }
    if link.generation.zip(link.max_generation).is_some_and(|(now, most)| now < most) {
        let advice = "an idle link may slow down: what it gives under load is the rate of copies, below";
        return Finding::note("pcie", fact, advice);
    }
    Finding::ok("pcie", fact)
}

/// Bytes a second that the lanes carry one way, at the highest generation, before headers.
fn pcie_bytes_per_second(link: &PcieLink) -> Option<f64> {
    let lane = match link.max_generation? {
        1 => 0.25e9,
        2 => 0.5e9,
        3 => 0.985e9,
        4 => 1.969e9,
        5 => 3.938e9,
        6 => 7.563e9,
        _ => return None,
    };
    Some(lane * f64::from(link.width.or(link.max_width)?))
}

fn gigabytes(bytes_per_second: f64) -> String {
    format!("{:.1} GB/s", bytes_per_second / 1e9)
}

fn copy_rate(rates: &Rates, link: &PcieLink) -> Finding {
    /// The copy engine of an H200 brings 88% of what its lanes carry.
    const GOOD_SHARE: f64 = 0.7;
    let rate = match &rates.copies {
        Rate::Measured { bytes_per_second } => *bytes_per_second,
        Rate::Failed { reason } => {
            let advice =
                "how near a run comes to the link is not known: see memlock, and the memory that is free";
            return Finding::note("copies", format!("not measured: {reason}"), advice);
        }
        Rate::NotMeasured => return Finding::ok("copies", "not measured"),
    };
    let Some(most) = pcie_bytes_per_second(link) else {
        return Finding::ok("copies", format!("{} from host memory by the copy engine", gigabytes(rate)));
    };
    let fact = format!(
        "{} from host memory by the copy engine, the lanes carry {}",
        gigabytes(rate),
        gigabytes(most)
    );
    if rate < GOOD_SHARE * most {
        return Finding::note(
            "copies",
            fact,
            "no run can page faster: see whether others use the link, and run on the GPU's NUMA node (numactl; \
             nvidia-smi topo -m)",
        );
    }
    Finding::ok("copies", fact)
}

fn pull_rate(rates: &Rates) -> Finding {
    /// On an H200 warps reach 93% of the copy engine, at every page size.
    const GOOD_SHARE: f64 = 0.8;
    let rate = match &rates.pulls {
        Rate::Measured { bytes_per_second } => *bytes_per_second,
        Rate::Failed { reason } => {
            // The way that a run takes, too, with all that it falls back to.
            let advice = "runs would fail in the same way: see the other findings, and nvidia-smi";
            return Finding::problem("pulls", format!("not measured: {reason}"), advice);
        }
        Rate::NotMeasured => return Finding::ok("pulls", "not measured"),
    };
    let page = ByteSize::b(rates.page_size_bytes);
    let fact = format!("{} by warps, pages of {page}", gigabytes(rate));
    match rates.copies {
        Rate::Measured { bytes_per_second: copies } => {
            let fact = format!("{fact}: {:.0}% of copies", rate / copies * 100.0);
            if rate < GOOD_SHARE * copies {
                let advice =
                    "faults cannot be served faster: try doctor --page-size 64K, and that size for runs";
                return Finding::note("pulls", fact, advice);
            }
            Finding::ok("pulls", fact)
        }
        _ => Finding::ok("pulls", fact),
    }
}

fn bar1(gpu: &GpuFacts) -> Finding {
    let Some(bar1) = gpu.bar1 else {
        return Finding::ok("bar1", "unknown; only RDMA devices need it");
    };
    let fact = format!("{}, {} in use", ByteSize::b(bar1.total_bytes), ByteSize::b(bar1.used_bytes));
    if bar1.total_bytes < gpu.memory.total_bytes {
        let advice = "RDMA devices reach so much of the GPU's memory at a time: for all of it, enable resizable BAR in \
                      the BIOS";
        return Finding::note("bar1", fact, advice);
    }
    Finding::ok("bar1", fact)
}

fn gpu_direct(gpu: &GpuFacts, host: &HostFacts) -> Finding {
    let topic = "gpudirect";
    let yes = |can: bool| if can { "yes" } else { "no" };
    let fact = format!(
        "RDMA into GPU memory: {}, dma-buf: {}, module nvidia-peermem: {}",
        yes(gpu.gpu_direct_rdma),
        yes(gpu.dma_buf),
        if host.peer_memory_module { "loaded" } else { "not loaded" }
    );
    match (gpu.gpu_direct_rdma, gpu.dma_buf || host.peer_memory_module) {
        // Nothing to do where there is nobody to use it.
        _ if host.rdma_devices.is_empty() => Finding::ok(topic, fact),
        (true, true) => Finding::ok(topic, fact),
        (true, false) => Finding::note(
            topic,
            fact,
            "RDMA devices cannot reach the GPU's memory yet: modprobe nvidia-peermem, or take the open kernel modules, \
             which have dma-buf",
        ),
        (false, _) => {
            Finding::note(topic, fact, "this GPU has no GPUDirect RDMA; pages come by warps without it")
        }
    }
}

fn cooperative_launch(gpu: &GpuFacts) -> Finding {
    match gpu.cooperative_launch {
        true => Finding::ok("launch", "cooperative launch: yes"),
        false => Finding::problem(
            "launch",
            "cooperative launch: no",
            "every kernel needs it: use --device cpu or another GPU",
        ),
    }
}

fn managed(gpu: &GpuFacts) -> Finding {
    match gpu.concurrent_managed_access {
        true => Finding::ok("managed", "concurrent access to managed memory: yes"),
        false => Finding::note(
            "managed",
            "concurrent access to managed memory: no",
            "only --access managed and managed-read-mostly are the worse for it: their memory is copied as a whole",
        ),
    }
}

fn registration(gpu: &GpuFacts) -> Finding {
    match gpu.read_only_host_register {
        true => Finding::ok("mapping", "registration of read-only memory: yes"),
        false => Finding::note(
            "mapping",
            "registration of read-only memory: no",
            "a .gvg file may have to be copied to memory of its own before a run: see that twice its size is free",
        ),
    }
}

fn locked_memory(host: &HostFacts) -> Finding {
    let topic = "memlock";
    let Some(locked) = host.locked_memory else {
        return Finding::ok(topic, "limit of locked memory: unknown");
    };
    let Some(limit) = locked.limit_bytes else {
        return Finding::ok(topic, "limit of locked memory (ulimit -l): none");
    };
    let fact = format!("limit of locked memory (ulimit -l): {}", ByteSize::b(limit));
    if host.memory.is_none_or(|memory| limit < memory.total_bytes) {
        return Finding::note(
            topic,
            fact,
            "RDMA devices register memory under this limit, and so may a GPU's driver: if a run cannot pin its graph, \
             ulimit -l unlimited (docker run --ulimit memlock=-1; LimitMEMLOCK=infinity in a unit)",
        );
    }
    Finding::ok(topic, fact)
}

fn huge_pages(host: &HostFacts) -> Finding {
    let topic = "huge pages";
    match host.transparent_huge_pages.as_deref() {
        Some("never") => Finding::note(
            topic,
            "transparent huge pages: never",
            "graphs in memory take longer to set up and to register: \
             echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(choice) => Finding::ok(topic, format!("transparent huge pages: {choice}")),
        None => Finding::ok(topic, "transparent huge pages: unknown"),
    }
}

fn host_memory(host: &HostFacts) -> Finding {
    let topic = "host";
    let Some(memory) = host.memory else { return Finding::ok(topic, "memory unknown") };
    let (total, available) = (memory.total_bytes, memory.available_bytes);
    let fact = format!("{} of memory, {} available", ByteSize::b(total), ByteSize::b(available));
    if available < total / 8 {
        let advice = "graphs are held in host memory: end what else uses it, or convert the graph to .gvg, which is mapped";
        return Finding::note(topic, fact, advice);
    }
    Finding::ok(topic, fact)
}

fn cpu_device(facts: &Facts) -> Finding {
    let mut fact = count(facts.host.cores as u64, "thread", "threads");
    if let (Gpu::NotAsked | Gpu::Missing { .. }, Rate::Measured { bytes_per_second }) =
        (&facts.gpu, &facts.rates.pulls)
    {
        let page = ByteSize::b(facts.rates.page_size_bytes);
        fact += &format!(", {} by its threads, pages of {page}", gigabytes(*bytes_per_second));
    }
    Finding::ok("cpu device", fact)
}

#[cfg(test)]
mod tests {
    use gpuvm_engine::{Bar1, MemoryUsage};

    use super::super::host::{GpuDistance, HostMemory, LockedMemory, RdmaDevice, RdmaPort};
    use super::super::topology::Distance;
    use super::*;

    fn good_gpu() -> GpuFacts {
        GpuFacts {
            ordinal: 0,
            name: "NVIDIA H200".to_owned(),
            compute_capability: Version::new(9, 0),
            multiprocessors: 132,
            memory: MemoryUsage { total_bytes: 140 << 30, free_bytes: 139 << 30, ..MemoryUsage::default() },
            cuda_version: Version::new(12, 4),
            driver_version: Some("550.54.15".to_owned()),
            pcie: PcieLink {
                generation: Some(5),
                width: Some(16),
                max_generation: Some(5),
                max_width: Some(16),
            },
            bar1: Some(Bar1 { total_bytes: 256 << 30, used_bytes: 1 << 20 }),
            cooperative_launch: true,
            concurrent_managed_access: true,
            read_only_host_register: true,
            gpu_direct_rdma: true,
            dma_buf: true,
        }
    }

    fn rdma(state: &str) -> RdmaDevice {
        let port = RdmaPort {
            number: 1,
            state: Some(state.to_owned()),
            rate: Some("400 Gb/sec (4X NDR)".to_owned()),
            link_layer: Some("InfiniBand".to_owned()),
        };
        RdmaDevice {
            name: "mlx5_0".to_owned(),
            ports: vec![port],
            pci_address: Some("0000:19:00.0".to_owned()),
            numa_node: Some(0),
            dma_buf: Some(true),
            gpus: vec![GpuDistance {
                pci_address: "0000:18:00.0".to_owned(),
                distance: Distance::SameSwitch,
            }],
        }
    }

    fn good() -> Facts {
        Facts {
            gpu: Gpu::Found { facts: Box::new(good_gpu()) },
            rates: Rates {
                page_size_bytes: 8192,
                copies: Rate::Measured { bytes_per_second: 55.3e9 },
                pulls: Rate::Measured { bytes_per_second: 51.3e9 },
            },
            host: HostFacts {
                cores: 16,
                memory: Some(HostMemory { total_bytes: 128 << 30, available_bytes: 120 << 30 }),
                locked_memory: Some(LockedMemory { limit_bytes: None }),
                transparent_huge_pages: Some("madvise".to_owned()),
                nvidia_module: Some("550.54.15".to_owned()),
                peer_memory_module: true,
                rdma_devices: vec![rdma("ACTIVE")],
            },
        }
    }

    fn with_gpu(change: impl FnOnce(&mut GpuFacts)) -> Facts {
        let mut gpu = good_gpu();
        change(&mut gpu);
        Facts { gpu: Gpu::Found { facts: Box::new(gpu) }, ..good() }
    }

    fn with_host(change: impl FnOnce(&mut HostFacts)) -> Facts {
        let mut facts = good();
        change(&mut facts.host);
        facts
    }

    fn with_rates(copies: Rate, pulls: Rate) -> Facts {
        Facts { rates: Rates { page_size_bytes: 8192, copies, pulls }, ..good() }
    }

    /// That all is well but for one finding, and that it says so.
    #[track_caller]
    fn assert_only(facts: &Facts, topic: &str, verdict: Verdict, words: &[&str]) {
        let all = findings(facts);
        let bad: Vec<_> = all.iter().filter(|finding| finding.verdict != Verdict::Ok).collect();
        let [finding] = bad[..] else { panic!("one finding expected: {bad:#?}") };
        assert_eq!((finding.topic, finding.verdict), (topic, verdict), "{finding:?}");
        let text = format!("{} {}", finding.fact, finding.advice.as_deref().expect("advice"));
        for word in words {
            assert!(text.contains(word), "\"{word}\" is not in: {text}");
        }
    }

    /// The names of all fields, at any depth.
    fn fields(json: &serde_json::Value) -> Vec<String> {
        match json {
            serde_json::Value::Object(object) => {
                object.iter().flat_map(|(name, value)| [vec![name.clone()], fields(value)].concat()).collect()
            }
            serde_json::Value::Array(values) => values.iter().flat_map(fields).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_fact_of_a_gpu_is_documented() {
        let page = include_str!("../../docs/json.md");
        let mut facts = good();
        facts.rates.pulls = Rate::Failed { reason: "no luck".to_owned() };
        let names = fields(&serde_json::to_value(&facts).expect("JSON"));
        assert!(names.contains(&"compute_capability".to_owned()), "{names:?}");
        let missing: Vec<_> = names.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/json.md lacks {missing:?}");
    }

    #[test]
    fn good_machine_has_nothing_to_note() {
        for finding in findings(&good()) {
            assert_eq!((finding.verdict, finding.advice.as_ref()), (Verdict::Ok, None), "{finding:?}");
        }
    }

    #[test]
    fn old_driver_is_a_problem_with_the_version_that_would_do() {
        let facts = with_gpu(|gpu| {
            gpu.driver_version = Some("470.57.02".to_owned());
            gpu.cuda_version = Version::new(11, 4);
        });
        assert_only(&facts, "driver", Verdict::Problem, &["470.57.02", "CUDA 11.4", "525"]);
        let compatible = with_gpu(|gpu| gpu.driver_version = Some("470.57.02".to_owned()));
        assert_only(&compatible, "driver", Verdict::Note, &["470.57.02", "CUDA 12.4", "525"]);
    }

    #[test]
    fn version_of_the_driver_comes_from_the_kernel_module_where_nvml_is_missing() {
        let facts = with_gpu(|gpu| {
            gpu.driver_version = None;
            gpu.pcie = PcieLink::default();
            gpu.bar1 = None;
        });
        assert_only(&facts, "pcie", Verdict::Note, &["NVML", "libnvidia-ml.so.1"]);
        let driver =
            findings(&facts).into_iter().find(|finding| finding.topic == "driver").expect("a driver");
        assert!(driver.fact.contains("550.54.15"), "{driver:?}");
    }

    #[test]
    fn link_with_half_its_lanes_is_noted() {
        let mut facts = with_gpu(|gpu| gpu.pcie.width = Some(8));
        facts.rates.copies = Rate::Measured { bytes_per_second: 27.5e9 };
        facts.rates.pulls = Rate::Measured { bytes_per_second: 25.5e9 };
        assert_only(&facts, "pcie", Verdict::Note, &["8 of 16 lanes", "slot"]);
    }

    #[test]
    fn link_that_idles_at_a_lower_generation_is_noted_as_such() {
        let facts = with_gpu(|gpu| gpu.pcie.generation = Some(1));
        assert_only(&facts, "pcie", Verdict::Note, &["generation 1 of 5", "idle"]);
    }

    #[test]
    fn slow_copies_and_slow_pulls_are_noted_each_for_itself() {
        let measured = |gigabytes: f64| Rate::Measured { bytes_per_second: gigabytes * 1e9 };
        let facts = with_rates(measured(20.0), measured(19.0));
        assert_only(&facts, "copies", Verdict::Note, &["20.0 GB/s", "63.0 GB/s", "NUMA"]);
        let facts = with_rates(measured(55.0), measured(11.0));
        assert_only(&facts, "pulls", Verdict::Note, &["11.0 GB/s", "8.0 KiB", "20%", "--page-size"]);
        let facts = with_rates(measured(55.0), Rate::Failed { reason: "no luck".to_owned() });
        assert_only(&facts, "pulls", Verdict::Problem, &["no luck"]);
        let facts = with_rates(Rate::Failed { reason: "no luck".to_owned() }, measured(50.0));
        assert_only(&facts, "copies", Verdict::Note, &["no luck"]);
    }

    #[test]
    fn gpu_that_cannot_run_kernels_is_a_problem() {
        let facts = with_gpu(|gpu| gpu.compute_capability = Version::new(6, 1));
        assert_only(&facts, "gpu", Verdict::Problem, &["6.1", "7.0", "--device cpu"]);
        let facts = with_gpu(|gpu| gpu.cooperative_launch = false);
        assert_only(&facts, "launch", Verdict::Problem, &["--device cpu"]);
    }

    #[test]
    fn what_only_some_runs_need_is_a_note() {
        let facts = with_gpu(|gpu| gpu.memory.free_bytes = 10 << 30);
        assert_only(&facts, "memory", Verdict::Note, &["10.0 GiB free", "nvidia-smi"]);
        let facts = with_gpu(|gpu| gpu.bar1 = Some(Bar1 { total_bytes: 256 << 20, used_bytes: 0 }));
        assert_only(&facts, "bar1", Verdict::Note, &["256.0 MiB", "resizable BAR"]);
        let facts = with_gpu(|gpu| gpu.concurrent_managed_access = false);
        assert_only(&facts, "managed", Verdict::Note, &["--access managed"]);
        let facts = with_gpu(|gpu| gpu.read_only_host_register = false);
        assert_only(&facts, "mapping", Verdict::Note, &[".gvg"]);
    }

    #[test]
    fn gpu_direct_needs_a_module_or_dma_buf_where_there_are_rdma_devices() {
        let mut facts = with_gpu(|gpu| gpu.dma_buf = false);
        facts.host.peer_memory_module = false;
        assert_only(&facts, "gpudirect", Verdict::Note, &["not loaded", "modprobe nvidia-peermem"]);
        facts.host.rdma_devices.clear();
        assert!(findings(&facts).iter().all(|finding| finding.verdict == Verdict::Ok));
        let facts = with_gpu(|gpu| gpu.gpu_direct_rdma = false);
        assert_only(&facts, "gpudirect", Verdict::Note, &["no GPUDirect RDMA"]);
    }

    #[test]
    fn rdma_device_without_an_active_port_is_noted() {
        let facts = with_host(|host| host.rdma_devices = vec![rdma("DOWN")]);
        assert_only(&facts, "rdma", Verdict::Note, &["mlx5_0", "DOWN", "400 Gb/sec", "InfiniBand", "cable"]);
        let bare = RdmaDevice { name: "odd".to_owned(), ports: Vec::new(), ..rdma("DOWN") };
        let facts = with_host(|host| host.rdma_devices = vec![bare]);
        assert_only(&facts, "rdma", Verdict::Note, &["odd, no port known"]);
    }

    #[test]
    fn limits_of_the_host_are_noted_with_the_command_that_lifts_them() {
        let limit = |bytes| Some(LockedMemory { limit_bytes: Some(bytes) });
        let facts = with_host(|host| host.locked_memory = limit(64 << 10));
        assert_only(&facts, "memlock", Verdict::Note, &["64.0 KiB", "ulimit -l unlimited"]);
        let facts = with_host(|host| host.transparent_huge_pages = Some("never".to_owned()));
        assert_only(&facts, "huge pages", Verdict::Note, &["never", "echo madvise"]);
        let facts = with_host(|host| {
            host.memory = Some(HostMemory { total_bytes: 128 << 30, available_bytes: 1 << 30 });
        });
        assert_only(&facts, "host", Verdict::Note, &["1.0 GiB available"]);
        let enough = with_host(|host| host.locked_memory = limit(256 << 30));
        assert!(findings(&enough).iter().all(|finding| finding.verdict == Verdict::Ok));
    }

    #[test]
    fn missing_gpu_is_a_note_and_a_problem_where_its_driver_is_loaded() {
        let mut facts = good();
        facts.gpu = Gpu::Missing { reason: "there is no CUDA driver on this machine".to_owned() };
        assert_only(&facts, "gpu", Verdict::Problem, &["no CUDA driver", "550.54.15", "--gpus all"]);
        facts.host.nvidia_module = Some("470.57.02".to_owned());
        assert_only(&facts, "gpu", Verdict::Problem, &["470.57.02", "525"]);
        facts.host.nvidia_module = None;
        assert_only(&facts, "gpu", Verdict::Note, &["no CUDA driver", "CPU device", "525"]);
        facts.gpu = Gpu::NotAsked;
        assert!(findings(&facts).iter().all(|finding| finding.verdict == Verdict::Ok));
    }

    #[test]
    fn what_the_host_does_not_tell_is_unknown_and_no_reproach() {
        let facts = Facts { host: HostFacts { cores: 1, ..HostFacts::default() }, ..good() };
        assert!(findings(&facts).iter().all(|finding| finding.verdict == Verdict::Ok), "{facts:?}");
        let memory_unknown = with_host(|host| {
            host.memory = None;
            host.locked_memory = Some(LockedMemory { limit_bytes: Some(64 << 10) });
        });
        assert_only(&memory_unknown, "memlock", Verdict::Note, &["64.0 KiB"]);
    }
}
