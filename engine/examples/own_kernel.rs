//! A kernel of one's own over an array larger than its share of the GPU: the kernel pages it in by itself.
//!
//!     cargo run --release -p gpuvm-engine --example own_kernel
//!
//! Needs a GPU and NVRTC 12, which compiles `own_kernel.cu` for it. Where the loader does not find `libnvrtc.so.12`,
//! `GPUVM_NVRTC` names it.

use gpuvm_engine::graph::HostArray;
use gpuvm_engine::{DeviceKind, Engine, EngineConfig, Frames, Grid, PagedArray, PagedArrayOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new(EngineConfig { device: DeviceKind::Cuda(0), ..EngineConfig::default() })?;

    // 1 GiB of samples in host memory, of which the GPU may hold 256 MiB at a time. Any `bytemuck::Pod` element will do
    // whose size is a power of two; a `Vec` or a mapped file is taken as it is.
    let samples = HostArray::from_fn(1 << 30, |i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)?;
    let options = PagedArrayOptions { frames: Frames::Bytes(256 << 20), ..PagedArrayOptions::default() };
    let mut samples = PagedArray::new(&engine, samples, options)?;
    println!("{}: {} pages, {} frames", engine.device_name(), samples.num_pages(), samples.num_frames());

    let mut histogram = engine.compile_kernel(include_str!("own_kernel.cu"), "histogram")?;
    let mut counts = engine.zeros::<u64>(256)?;
    // SAFETY: the kernel takes a paged slice of bytes and 256 counts, and writes no more than those.
    let stats = unsafe { histogram.launch(Grid::default(), (&mut samples, &mut counts)) }?;

    println!(
        "{} faults, {} evictions, {:.2} GB in, {:.1} GB/s",
        stats.paging.faults,
        stats.paging.evictions,
        stats.paging.bytes_in as f64 / 1e9,
        stats.paging.bytes_in as f64 / stats.seconds / 1e9
    );
    let counts = counts.to_vec()?;
    assert_eq!(counts.iter().sum::<u64>(), 1 << 30);
    println!("value 0: {} times, value 255: {} times", counts[0], counts[255]);
    Ok(())
}
