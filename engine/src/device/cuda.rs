//! A GPU, through the driver alone: no CUDA toolkit is needed to build or to run. One stream for everything, so that
//! copies and kernels keep their order; a second one carries the word that stops a running kernel.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError,
    LaunchConfig, PushKernelArg, result, sys,
};
use cudarc::nvrtc::Ptx;
use gpuvm_kernels::cpu_device::KernelArgs;
use gpuvm_kernels::layout::{CUDA_BLOCK_WARPS, CUDA_BLOCKS_PER_MULTIPROCESSOR};
use rayon::prelude::*;

use crate::error::Error;
use crate::facts::MemoryUsage;

pub(crate) const WARPS_PER_BLOCK: u32 = CUDA_BLOCK_WARPS as u32;
pub(super) const BLOCK_THREADS: u32 = WARPS_PER_BLOCK * 32;

/// Device memory left to others and to the driver: module code, local memory, pool granularity.
const RESERVE_BYTES: u64 = 512 << 20;

/// A GPU with the modules it has loaded.
#[derive(Debug)]
pub(crate) struct CudaDevice {
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    side_stream: Arc<CudaStream>,
    modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
    name: String,
    pub(super) multiprocessors: u32,
}

pub(super) fn driver_error(what: &'static str) -> impl FnOnce(DriverError) -> Error {
    move |source| Error::Cuda { what, source }
}

/// Whether there is a driver, and a GPU that it knows.
pub(crate) fn has_gpu() -> bool {
    // SAFETY: loads and unloads the driver's library, which has no other effect.
    let has_driver = unsafe { sys::is_culib_present() };
    has_driver && CudaContext::device_count().is_ok_and(|count| count > 0)
}

/// The GPUs in use: engines on the same one share its context and its modules, which take a driver seconds to compile.
static DEVICES: Mutex<BTreeMap<u32, Weak<CudaDevice>>> = Mutex::new(BTreeMap::new());

impl CudaDevice {
    /// The GPU of this number.
    pub fn shared(ordinal: u32) -> Result<Arc<Self>, Error> {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Arc::new(Self::new(ordinal)?);
        devices.insert(ordinal, Arc::downgrade(&device));
        Ok(device)
    }

    fn new(ordinal: u32) -> Result<Self, Error> {
        // cudarc panics where there is no driver, so that is asked first.
        // SAFETY: loads and unloads the driver's library, which has no other effect.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        let context =
            CudaContext::new(ordinal as usize).map_err(|source| Error::NoGpu { ordinal, source })?;
        let stream = context.new_stream().map_err(driver_error("create a stream"))?;
        let side_stream = context.new_stream().map_err(driver_error("create a stream"))?;
        let name = context.name().map_err(driver_error("ask the device's name"))?;
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let multiprocessors =
            context.attribute(attribute).map_err(driver_error("count multiprocessors"))? as u32;
        Ok(Self { context, stream, side_stream, modules: Mutex::default(), name, multiprocessors })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// An attribute of the device: a number, or 0 and 1 for no and yes.
    pub fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<u32, Error> {
        let value =
            self.context.attribute(attribute).map_err(driver_error("ask for an attribute of the device"))?;
        Ok(value as u32)
    }

    /// Major and minor number.
    pub fn compute_capability(&self) -> Result<(u32, u32), Error> {
        let (major, minor) =
            self.context.compute_capability().map_err(driver_error("ask for the compute capability"))?;
        Ok((major as u32, minor as u32))
    }

    pub fn num_multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    pub fn max_warps(&self) -> u32 {
        self.multiprocessors * CUDA_BLOCKS_PER_MULTIPROCESSOR as u32 * WARPS_PER_BLOCK
    }

    pub fn free_bytes(&self) -> Result<u64, Error> {
        Ok(self.memory_usage()?.free_bytes.saturating_sub(RESERVE_BYTES))
    }

    /// What the driver counts of this GPU's memory, once everything under way is done.
    pub fn memory_usage(&self) -> Result<MemoryUsage, Error> {
        // Memory is freed in the order of a stream, and the driver's pool gives it back to the device when somebody waits.
        self.context.synchronize().map_err(driver_error("wait for the device"))?;
        let (free, total) = self.context.mem_get_info().map_err(driver_error("ask for free memory"))?;
        let mut usage =
            MemoryUsage { total_bytes: total as u64, free_bytes: free as u64, ..MemoryUsage::default() };
        if self.context.has_async_alloc() {
            use sys::CUmemPool_attribute as Attribute;
            // SAFETY: the device is that of the context.
            let pool = unsafe { result::device::get_mem_pool(self.context.cu_device()) }
                .map_err(driver_error("find the memory pool"))?;
            let ask = |attribute: Attribute| {
                let mut bytes = 0_u64;
                // SAFETY: the pool is the device's; each of the three attributes below is one `cuuint64_t`.
                unsafe { sys::cuMemPoolGetAttribute(pool, attribute, (&raw mut bytes).cast()) }
                    .result()
                    .map(|()| bytes)
                    .map_err(driver_error("ask the memory pool"))
            };
            usage.pool_used_bytes = ask(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
            usage.pool_most_used_bytes = ask(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
            usage.pool_reserved_bytes = ask(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        }
        Ok(usage)
    }

    /// A kernel, and how many of its blocks a multiprocessor runs at once. The first kernel of a module has the driver
    /// compile all of it, unless the driver's cache has it.
    pub fn kernel<A: KernelArgs>(&self, args: &A) -> Result<(CudaFunction, u32), Error> {
        let (module, kernel) = args.cuda_kernel();
        self.context.bind_to_thread().map_err(driver_error("use the device"))?;
        let started = Instant::now();
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let known = modules.get(module).map(Arc::clone);
        let is_new = known.is_none();
        let loaded = match known {
            Some(loaded) => loaded,
            None => {
                let ptx = gpuvm_kernels::ptx(module).ok_or(Error::NoKernels { module })?;
                let loaded =
                    self.context.load_module(Ptx::from_src(ptx)).map_err(driver_error("load kernels"))?;
                modules.insert(module, Arc::clone(&loaded));
                loaded
            }
        };
        let function = loaded.load_function(kernel).map_err(driver_error("find a kernel"))?;
        // A driver that loads lazily puts off the work until somebody asks about the kernel: this does.
        let at_once = function
            .occupancy_max_active_blocks_per_multiprocessor(BLOCK_THREADS, 0, None)
            .map_err(driver_error("ask for the occupancy of a kernel"))?;
        if is_new {
            tracing::debug!(module, seconds = started.elapsed().as_secs_f64(), "kernels loaded");
        }
        Ok((function, at_once))
    }

    /// Bytes a second that the copy engine brings from pinned host memory: the most that the link gives. Median of 5.
    pub fn copy_rate(self: &Arc<Self>, host: &[u8]) -> Result<f64, Error> {
        let size = host.len() as u64;
        let pin = HostPin::new(self, host).map_err(|source| Error::Pin {
            what: "a test buffer",
            bytes: size,
            source,
        })?;
        let target = CudaMemory::zeroed(self, "a test buffer", size)?;
        let mut seconds = Vec::new();
        for _ in 0..6 {
            let started = Instant::now();
            // SAFETY: both ranges are `size` bytes and outlive the copy, which is waited for.
            unsafe { result::memcpy_htod_async(target.address(), host, self.stream.cu_stream()) }
                .map_err(driver_error("copy to the device"))?;
            self.stream.synchronize().map_err(driver_error("copy to the device"))?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        drop(pin);
        seconds[1..].sort_by(f64::total_cmp);
        Ok(size as f64 / seconds[3])
    }

    /// Runs a kernel to its end.
    ///
    /// # Safety
    /// As [`Device::launch`](super::Device::launch).
    pub unsafe fn launch<A: KernelArgs>(&self, args: &A, num_warps: u32) -> Result<(), Error> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.start(args, num_warps) }?;
        self.stream.synchronize().map_err(driver_error("run a kernel"))
    }

    /// Has the engine's stream run a kernel, after all that it has to do before.
    ///
    /// # Safety
    /// As [`launch`](Self::launch), until somebody has waited for the stream.
    pub(super) unsafe fn start<A: KernelArgs>(&self, args: &A, num_warps: u32) -> Result<(), Error> {
        let (function, at_once) = self.kernel(args)?;
        // Warps wait for each other at the end of a step: all of them must fit the device at once.
        let blocks = (num_warps / WARPS_PER_BLOCK).clamp(1, at_once * self.multiprocessors);
        let config =
            LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (BLOCK_THREADS, 1, 1), shared_mem_bytes: 0 };
        let parameter = Launched(*args);
        let mut launch = self.stream.launch_builder(&function);
        launch.arg(&parameter);
        // SAFETY: the kernel takes one argument, of type `A` (the contract of `KernelArgs`); the rest is the caller's.
        unsafe { launch.launch_cooperative(config) }.map(|_| ()).map_err(driver_error("launch a kernel"))
    }
}

/// A kernel's argument, passed by value.
#[repr(transparent)]
pub(super) struct Launched<A>(pub A);

// SAFETY: shared structs are `repr(C)`, of fixed-width integers alone.
unsafe impl<A: KernelArgs> DeviceRepr for Launched<A> {}

/// Bytes in device memory, or managed memory.
#[derive(Debug)]
pub(crate) struct CudaMemory {
    device: Arc<CudaDevice>,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Device(CudaSlice<u8>),
    Managed(OwnBytes),
    /// Not of the pool, whose memory other devices may not reach.
    #[cfg(feature = "rdma")]
    Alone(OwnBytes),
    /// In host memory.
    #[cfg(feature = "rdma")]
    Pinned(PinnedBytes),
}

/// An allocation by itself.
#[derive(Debug)]
struct OwnBytes {
    address: sys::CUdeviceptr,
}

impl Drop for OwnBytes {
    fn drop(&mut self) {
        // SAFETY: the address came from `malloc_managed` or `malloc_sync`, and this is its only owner. Failure would leak.
        let _ = unsafe { result::memory_free(self.address) };
    }
}

impl CudaMemory {
    /// `size` zero bytes.
    pub fn zeroed(device: &Arc<CudaDevice>, what: &'static str, size: u64) -> Result<Self, Error> {
        let bytes = device
            .stream
            .alloc_zeros::<u8>(size as usize)
            .map_err(|_| Error::OutOfMemory { what, bytes: size })?;
        Ok(Self { device: Arc::clone(device), bytes: Bytes::Device(bytes) })
    }

    /// Managed memory that holds `elements`; `read_mostly` lets the driver keep copies on both sides.
    ///
    /// The caller has made sure that the card has this much free: more may hang it.
    pub fn managed(device: &Arc<CudaDevice>, elements: &[u8], read_mostly: bool) -> Result<Self, Error> {
        let size = elements.len();
        let fail = driver_error("set up managed memory");
        device.context.bind_to_thread().map_err(fail)?;
        let global = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL;
        // SAFETY: a plain allocation; `ManagedBytes` owns it from here on.
        let address = unsafe { result::malloc_managed(size, global) }
            .map_err(|_| Error::OutOfMemory { what: "managed memory", bytes: size as u64 })?;
        let bytes = OwnBytes { address };
        // SAFETY: managed memory may be written by the host while no kernel runs; `size` bytes were allocated, and
        // nobody else knows of them.
        let target = unsafe { std::slice::from_raw_parts_mut(address as *mut MaybeUninit<u8>, size) };
        target.par_chunks_mut(1 << 20).zip(elements.par_chunks(1 << 20)).for_each(|(to, from)| {
            to.write_copy_of_slice(from);
        });
        if read_mostly {
            let advice = sys::CUmem_advise::CU_MEM_ADVISE_SET_READ_MOSTLY;
            // SAFETY: the range is the allocation.
            unsafe { sys::cuMemAdvise(address, size, advice, device.context.cu_device()) }
                .result()
                .map_err(driver_error("advise managed memory"))?;
        }
        Ok(Self { device: Arc::clone(device), bytes: Bytes::Managed(bytes) })
    }

    /// `size` zero bytes of the GPU's memory, which other devices can be shown.
    #[cfg(feature = "rdma")]
    pub fn for_other_devices(device: &Arc<CudaDevice>, what: &'static str, size: u64) -> Result<Self, Error> {
        // What the pool gave back is free again once somebody waited.
        device.context.synchronize().map_err(driver_error("wait for the device"))?;
        device.context.bind_to_thread().map_err(driver_error("use the device"))?;
        // SAFETY: a plain allocation; `OwnBytes` owns it from here on.
        let address = unsafe { result::malloc_sync(size as usize) }
            .map_err(|_| Error::OutOfMemory { what, bytes: size })?;
        let mut memory = Self { device: Arc::clone(device), bytes: Bytes::Alone(OwnBytes { address }) };
        memory.fill(0, size)?;
        Ok(memory)
    }

    /// `size` zero bytes of host memory, which kernels reach across the link.
    #[cfg(feature = "rdma")]
    pub fn in_host_memory(device: &Arc<CudaDevice>, what: &'static str, size: u64) -> Result<Self, Error> {
        let pinned = PinnedBytes::uninitialized(device, size as usize);
        let pinned = pinned.map_err(|source| Error::Pin { what, bytes: size, source })?;
        let mut memory = Self { device: Arc::clone(device), bytes: Bytes::Pinned(pinned) };
        memory.fill(0, size)?;
        Ok(memory)
    }

    pub fn address(&self) -> u64 {
        match &self.bytes {
            Bytes::Device(slice) => slice.device_ptr(&self.device.stream).0,
            Bytes::Managed(own) => own.address,
            #[cfg(feature = "rdma")]
            Bytes::Alone(own) => own.address,
            #[cfg(feature = "rdma")]
            Bytes::Pinned(pinned) => pinned.address(),
        }
    }

    pub fn is_on(&self, device: &Arc<CudaDevice>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    fn bind(&self) -> Result<(), Error> {
        self.device.context.bind_to_thread().map_err(driver_error("use the device"))
    }

    /// Sets all bytes.
    pub fn fill(&mut self, byte: u8, size: u64) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: `size` bytes were allocated at this address.
        unsafe {
            result::memset_d8_async(self.address(), byte, size as usize, self.device.stream.cu_stream())
        }
        .map_err(driver_error("fill device memory"))
    }

    /// Copies `bytes` to offset `at`, and waits.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: the caller (`DeviceArray`) keeps offset and length inside the allocation; the copy is waited for, so
        // the host bytes outlive it.
        unsafe { result::memcpy_htod_async(self.address() + at, bytes, self.device.stream.cu_stream()) }
            .map_err(driver_error("copy to the device"))?;
        self.device.stream.synchronize().map_err(driver_error("copy to the device"))
    }

    /// The same beside a running kernel.
    pub fn write_beside_a_kernel(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: as in `write`; kernels read these bytes by atomic loads.
        unsafe { result::memcpy_htod_async(self.address() + at, bytes, self.device.side_stream.cu_stream()) }
            .map_err(driver_error("copy to the device"))?;
        self.device.side_stream.synchronize().map_err(driver_error("copy to the device"))
    }

    /// Copies from offset `at` to `bytes`, after all kernels before.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.bind()?;
        // SAFETY: as in `write`.
        unsafe { result::memcpy_dtoh_async(bytes, self.address() + at, self.device.stream.cu_stream()) }
            .map_err(driver_error("copy from the device"))?;
        self.device.stream.synchronize().map_err(driver_error("copy from the device"))
    }
}

/// Host memory that a GPU reads where it lies, until dropped. Registration costs 0.12 s for 4 GiB of warm page cache,
/// `cudaHostAlloc` of as much 2 s.
#[derive(Debug)]
pub(crate) struct HostPin {
    device: Arc<CudaDevice>,
    host: *mut c_void,
    address: u64,
}

// SAFETY: the pointer is only given to the driver, which takes it from any thread.
unsafe impl Send for HostPin {}
// SAFETY: as above; a shared reference gives nothing but numbers.
unsafe impl Sync for HostPin {}

impl HostPin {
    /// Registers the pages of `bytes`. The caller keeps `bytes` alive and in place as long as the pin.
    pub fn new(device: &Arc<CudaDevice>, bytes: &[u8]) -> Result<Self, DriverError> {
        device.context.bind_to_thread()?;
        let host = bytes.as_ptr().cast_mut().cast::<c_void>();
        let (map, read_only) = (sys::CU_MEMHOSTREGISTER_DEVICEMAP, sys::CU_MEMHOSTREGISTER_READ_ONLY);
        // SAFETY: the range is memory of this process that stays where it is, by the caller's word. Mapped files may
        // only be registered for reading; the second try says so.
        unsafe {
            let register = |flags| sys::cuMemHostRegister_v2(host, bytes.len(), flags).result();
            register(map).or_else(|_| register(map | read_only))?;
        }
        let mut address = 0;
        // SAFETY: `host` was registered above.
        let found = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, host, 0) }.result();
        let pin = Self { device: Arc::clone(device), host, address };
        found.map(|()| pin)
    }

    /// Registers whole pages of memory, or of registers, that belong to another device's driver.
    ///
    /// # Safety
    /// They stay mapped as long as the pin.
    #[cfg(any(test, feature = "rdma"))]
    pub unsafe fn of_other_device(
        device: &Arc<CudaDevice>,
        address: u64,
        bytes: usize,
        are_registers: bool,
    ) -> Result<Self, DriverError> {
        device.context.bind_to_thread()?;
        let host = std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let registers = if are_registers { sys::CU_MEMHOSTREGISTER_IOMEMORY } else { 0 };
        let flags = sys::CU_MEMHOSTREGISTER_DEVICEMAP | sys::CU_MEMHOSTREGISTER_PORTABLE | registers;
        // SAFETY: the caller's promise; the driver checks the range.
        unsafe { sys::cuMemHostRegister_v2(host, bytes, flags) }.result()?;
        let mut address = 0;
        // SAFETY: `host` was registered above.
        let found = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, host, 0) }.result();
        let pin = Self { device: Arc::clone(device), host, address };
        found.map(|()| pin)
    }

    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for HostPin {
    fn drop(&mut self) {
        if self.device.context.bind_to_thread().is_ok() {
            // SAFETY: registered by `new`, unregistered once. Failure would keep the pages locked, no more.
            let _ = unsafe { sys::cuMemHostUnregister(self.host) }.result();
        }
    }
}

/// Host memory that the driver allocated, pinned, where a GPU reads it.
#[derive(Debug)]
pub(crate) struct PinnedBytes {
    device: Arc<CudaDevice>,
    host: *mut c_void,
    address: u64,
}

// SAFETY: this is the only owner of the memory, which any thread may use and free.
unsafe impl Send for PinnedBytes {}
// SAFETY: as above; a shared reference gives nothing but numbers.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// A copy of `bytes`, of which there is one at least.
    pub fn copied(device: &Arc<CudaDevice>, bytes: &[u8]) -> Result<Self, DriverError> {
        let pinned = Self::uninitialized(device, bytes.len())?;
        // SAFETY: `bytes.len()` bytes were allocated, of any content, and nobody else knows them yet.
        let target =
            unsafe { std::slice::from_raw_parts_mut(pinned.host.cast::<MaybeUninit<u8>>(), bytes.len()) };
        let blocks = target.par_chunks_mut(1 << 20).zip(bytes.par_chunks(1 << 20));
        blocks.for_each(|(to, from)| {
            to.write_copy_of_slice(from);
        });
        Ok(pinned)
    }

    /// `size` bytes of any content, one at least.
    pub(super) fn uninitialized(device: &Arc<CudaDevice>, size: usize) -> Result<Self, DriverError> {
        device.context.bind_to_thread()?;
        // SAFETY: a plain allocation; the value below owns it from here on.
        let host = unsafe { result::malloc_host(size, sys::CU_MEMHOSTALLOC_DEVICEMAP) }?;
        let mut pinned = Self { device: Arc::clone(device), host, address: 0 };
        // SAFETY: `host` was allocated above, to be mapped.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut pinned.address, host, 0) }.result()?;
        Ok(pinned)
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    /// Where this process finds it.
    pub fn host(&self) -> *mut u8 {
        self.host.cast()
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        if self.device.context.bind_to_thread().is_ok() {
            // SAFETY: came from `malloc_host`, freed once. Failure would leak, no more.
            let _ = unsafe { result::free_host(self.host) };
        }
    }
}
