//! Transport `device`: warps of the device stand for RNICs (`kernels/cuda/queue_engine.cuh`). Queues lie in device memory,
//! and no host thread is in the way: what queues cost by themselves, and a modelled NIC at a GPU's rates.

use gpuvm_kernels::layout::{NicState, PairProgress, ServeQueuesArgs};

use super::Transport;
use super::nic::MemoryRegion;
use super::queues::{Geometry, Keys, Memory, Queues};
use super::settings::TransportConfig;
use super::stats::NicCounts;
use crate::device::{Beside, Device, SharedBytes};
use crate::error::Error;
use crate::memory::{CancelHandle, DeviceArray};

/// Blocks of a GPU that stand for NICs at most: with 16 warps each that fetch a page, 4 KiB at a time, more bytes are under
/// way than a PCIe 5 link holds (1.4 us of 51 GB/s: 72 KB).
const MOST_BLOCKS: u32 = 8;

/// Blocks that stand for all NICs together. The kernels whose faults they serve leave them multiprocessors on a GPU.
pub(crate) fn num_blocks(device: &Device, config: &TransportConfig) -> u32 {
    match device {
        Device::Cpu(_) => config.rnics,
        Device::Cuda(cuda) => MOST_BLOCKS.min(cuda.num_multiprocessors() / 2).max(1),
    }
}

/// A transport whose NICs are warps of the device.
#[derive(Debug)]
pub(crate) struct DeviceEngine {
    queues: Queues,
    states: DeviceArray<NicState>,
    progress: DeviceArray<PairProgress>,
    stop: SharedBytes,
    beside: Beside,
    args: ServeQueuesArgs,
    num_blocks: u32,
    /// Whether the kernel runs.
    runs: bool,
    doorbells: Vec<u64>,
}

pub(super) fn open(
    device: &Device,
    config: &TransportConfig,
    memory: &Memory,
) -> Result<DeviceEngine, Error> {
    let geometry = Geometry::new(config, config.rnics);
    let keys: Vec<Keys> = (0..config.rnics).map(|nic| keys_of(nic, memory)).collect();
    let queues = Queues::new(device, geometry, config.fault_batch, memory, &keys, true)?;
    let num_nics = u64::from(config.rnics);
    let what = "NICs of the device";
    let states = DeviceArray::zeroed(device, what, num_nics)?;
    let progress = DeviceArray::zeroed(device, what, num_nics * u64::from(config.queue_pairs))?;
    let stop = SharedBytes::on_device(device, what, 4)?;
    let model = config.rnic_model;
    let args = ServeQueuesArgs {
        queues: queues.address(),
        states: states.address(),
        progress: progress.address(),
        stop: stop.address(),
        latency_ns: model.map_or(0, |model| model.latency.as_nanos() as u64),
        ns_per_mib: model.map_or(0, |model| (1e9 * f64::from(1 << 20) / model.bandwidth).round() as u64),
    };
    // Loaded now: a module that is loaded beside a running kernel may wait for it.
    device.load_kernel(&args)?;
    Ok(DeviceEngine {
        queues,
        states,
        progress,
        stop,
        beside: Beside::new(device)?,
        args,
        num_blocks: num_blocks(device, config),
        runs: false,
        doorbells: vec![0; config.rnics as usize],
    })
}

/// Bytes of device memory besides the queues.
pub(super) fn state_bytes(config: &TransportConfig) -> u64 {
    let of_nic = size_of::<NicState>() + config.queue_pairs as usize * size_of::<PairProgress>();
    u64::from(config.rnics) * of_nic as u64 + 4
}

fn keys_of(nic: u32, memory: &Memory) -> Keys {
    let key = |region: u32| (nic + 1) << 16 | (region + 1) << 8;
    let remote = (1..).zip(&memory.arrays).map(|(region, _): (u32, &(u64, MemoryRegion))| key(region));
    Keys { local: key(0), remote: remote.collect() }
}

impl DeviceEngine {
    fn stop(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.runs) {
            return Ok(());
        }
        self.stop.write_word(0, 1)?;
        self.beside.wait()
    }
}

impl Transport for DeviceEngine {
    fn queues_address(&self) -> u64 {
        self.queues.address()
    }

    fn begin(&mut self, _run: &CancelHandle) -> Result<(), Error> {
        self.stop.write_word(0, 0)?;
        // Counts of this kernel alone. Its clock goes on, so no link is busy with requests of the last.
        self.states.fill(0)?;
        // SAFETY: the arguments name arrays that this owns, and memory that its owner keeps as long as this; `stop` waits for
        // the end, also when this is dropped. Queues are shared by their protocol.
        unsafe { self.beside.start(self.args, self.num_blocks) }?;
        self.runs = true;
        Ok(())
    }

    fn end(&mut self, succeeded: bool) -> Result<Vec<NicCounts>, Error> {
        self.stop()?;
        let rung = self.queues.doorbells()?;
        let states = self.states.to_vec()?;
        let counts = (0..).zip(&states).zip(rung.iter().zip(&self.doorbells)).map(
            |((nic, state), (rung, before)): ((u32, &NicState), (&u64, &u64))| {
                let mut counts = NicCounts::new(format!("warps{nic}"));
                counts.requests = state.requests.value;
                counts.bytes = state.bytes.value;
                counts.taken = state.taken.value;
                counts.depth_sum = state.depth_sum.value;
                counts.doorbells = rung - before;
                counts.batches = counts.doorbells;
                let latencies = state
                    .latencies
                    .iter()
                    .flat_map(|part| part.counts)
                    .enumerate()
                    .filter(|&(_, count)| count > 0);
                latencies.for_each(|(bucket, count)| counts.add_latencies(middle_of(bucket as u64), count));
                counts
            },
        );
        let counts = counts.collect();
        self.doorbells = rung;
        if !succeeded {
            self.queues.reset()?;
            self.progress.fill(0)?;
            self.doorbells.fill(0);
        }
        Ok(counts)
    }
}

impl Drop for DeviceEngine {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "warps that stand for NICs did not stop");
        }
    }
}

/// Nanoseconds in the middle of a bucket of [`NicState::latencies`].
fn middle_of(bucket: u64) -> u64 {
    match bucket {
        0..16 => bucket,
        _ => {
            let (log, step) = (bucket / 16 + 3, bucket % 16);
            let width = 1_u64 << (log - 4);
            (16 + step) * width + width / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_latencies_follow_each_other() {
        // As `latency_bucket` in queue_engine.cuh has it: 16 to a power of two.
        for (bucket, middle) in
            [(0, 0), (15, 15), (16, 16), (31, 31), (32, 33), (33, 35), (48, 66), (160, 8448)]
        {
            assert_eq!(middle_of(bucket), middle, "bucket {bucket}");
        }
        assert!((0..975).all(|bucket| middle_of(bucket) < middle_of(bucket + 1)));
    }
}
