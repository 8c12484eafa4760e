//! NVRTC, the run-time compiler of CUDA C++: found at run time, like the driver.

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::OnceLock;

use cudarc::nvrtc::{Ptx, result, sys};

use crate::error::Error;

/// As the product's own kernels are compiled (`kernels/compile_ptx.py`); lines for profilers and debuggers on top.
const OPTIONS: [&str; 3] = ["--std=c++17", "-default-device", "-lineinfo"];

/// Whether there is an NVRTC 12 or newer.
fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        if let Some(path) = std::env::var_os("GPUVM_NVRTC") {
            // A library that is loaded already is found by its name, so cudarc finds this one.
            // SAFETY: loading NVRTC runs nothing but its initializers.
            if let Ok(library) = unsafe { libloading::Library::new(path) } {
                std::mem::forget(library);
            }
        }
        // cudarc panics where there is no library, or one without a function, so both are asked first.
        // SAFETY: as above.
        let has_library = unsafe { sys::is_culib_present() };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are places for a number.
        has_library && unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().is_ok() && major >= 12
    })
}

/// A program, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by `nvrtcCreateProgram`, destroyed once. Failure would leak, no more.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

impl Program {
    /// `source` under the name `file`, with the headers that it may include.
    fn new(file: &CStr, source: &CStr) -> Result<Self, result::NvrtcError> {
        let texts = |text: &str| CString::new(text).expect("headers have no zero byte");
        let (names, headers): (Vec<CString>, Vec<CString>) =
            gpuvm_kernels::HEADERS.iter().map(|(name, text)| (texts(name), texts(text))).unzip();
        let pointers =
            |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<*const c_char>>();
        let (names_at, headers_at) = (pointers(&names), pointers(&headers));
        let mut program = std::ptr::null_mut();
        // SAFETY: all texts end in a zero byte, both lists are of the length given, and NVRTC copies what it keeps.
        unsafe {
            sys::nvrtcCreateProgram(
                &mut program,
                source.as_ptr(),
                file.as_ptr(),
                names_at.len() as c_int,
                headers_at.as_ptr(),
                names_at.as_ptr(),
            )
        }
        .result()?;
        Ok(Self(program))
    }

    fn log(&self) -> String {
        // SAFETY: the program is live.
        let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        let bytes: &[u8] = bytemuck::cast_slice(&log);
        String::from_utf8_lossy(bytes).trim_end_matches(['\0', '\n']).to_owned()
    }

    fn machine_code(&self) -> Result<Vec<u8>, result::NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is live, `size` is a place for a size.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) }.result()?;
        let mut code = vec![0_u8; size];
        // SAFETY: NVRTC writes as many bytes as it said.
        unsafe { sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast()) }.result()?;
        Ok(code)
    }

    fn ptx(&self) -> Result<String, result::NvrtcError> {
        // SAFETY: the program is live.
        let text = unsafe { result::get_ptx(self.0) }?;
        let bytes: &[u8] = bytemuck::cast_slice(&text);
        Ok(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned())
    }
}

/// Compute capabilities that this NVRTC compiles for, as two digits.
fn supported_capabilities() -> Result<Vec<c_int>, result::NvrtcError> {
    let mut count = 0;
    // SAFETY: `count` is a place for a number.
    unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) }.result()?;
    let mut capabilities = vec![0; usize::try_from(count).unwrap_or_default()];
    // SAFETY: NVRTC writes as many numbers as it said.
    unsafe { sys::nvrtcGetSupportedArchs(capabilities.as_mut_ptr()) }.result()?;
    Ok(capabilities)
}

/// What NVRTC makes of `source` for a GPU of this compute capability: machine code, which any driver of the same CUDA
/// major version takes, or, for a GPU newer than this NVRTC, PTX that its driver compiles. Errors and warnings name the
/// source `<kernel>.cu`.
pub(super) fn compile(source: &str, kernel: &str, capability: (u32, u32)) -> Result<Ptx, Error> {
    let refused = |log: String| Error::Compile { kernel: kernel.to_owned(), log };
    let text =
        |text: &str| CString::new(text).map_err(|_| refused("a zero byte in its name or source".to_owned()));
    let (file, source) = (text(&format!("{kernel}.cu"))?, text(source)?);
    if !is_present() {
        return Err(Error::NoCompiler);
    }
    let failed = |error: result::NvrtcError| refused(error.to_string());
    let wanted = (capability.0 * 10 + capability.1) as c_int;
    let supported = supported_capabilities().map_err(failed)?;
    let is_known = supported.contains(&wanted);
    let target = match supported.iter().filter(|&&at| at <= wanted).max() {
        Some(newest) if is_known => format!("--gpu-architecture=sm_{newest}"),
        Some(newest) => format!("--gpu-architecture=compute_{newest}"),
        None => return Err(refused(format!("this NVRTC is too new for compute capability {wanted}"))),
    };
    let program = Program::new(&file, &source).map_err(failed)?;
    let options: Vec<&str> = OPTIONS.into_iter().chain([target.as_str()]).collect();
    // SAFETY: the program is live.
    unsafe { result::compile_program(program.0, &options) }.map_err(|_| refused(program.log()))?;
    let log = program.log();
    if !log.is_empty() {
        tracing::debug!("{log}");
    }
    if is_known {
        program.machine_code().map(Ptx::from_binary).map_err(failed)
    } else {
        program.ptx().map(Ptx::from_src).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = r#"
        #include "gpuvm.cuh"
        extern "C" __global__ void sum(gpuvm::PagedSlice<u32> values, u64* total) {
          gpuvm::CountedWarp warp(values);
          u64 mine = 0;
          values.for_each(warp, 0, values.len(), [&](u64, u32 value) { mine += value; });
          atomicAdd(total, mine);
        }"#;

    fn skipped() -> bool {
        if !is_present() {
            println!(
                "skipped: GPUVM_NVRTC does not name libnvrtc.so.12 (PyPI package nvidia-cuda-nvrtc-cu12)"
            );
        }
        !is_present()
    }

    #[test]
    fn kernel_that_includes_gpuvm_compiles_for_every_capability_from_7_0() {
        if skipped() {
            return;
        }
        for capability in [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)] {
            let compiled = compile(SUM, "sum", capability).unwrap_or_else(|e| panic!("{capability:?}: {e}"));
            assert!(format!("{compiled:?}").starts_with("Ptx(Binary"), "machine code");
        }
    }

    #[test]
    fn gpu_newer_than_the_compiler_gets_ptx() {
        if skipped() {
            return;
        }
        let compiled = compile(SUM, "sum", (99, 0)).expect("PTX of the newest capability");
        assert!(compiled.to_src().contains(".visible .entry sum("));
    }

    #[test]
    fn compile_error_comes_back_with_file_and_line() {
        if skipped() {
            return;
        }
        let error = compile("#include \"gpuvm.cuh\"\n\nint x = y;\n", "sum", (8, 0)).expect_err("no y");
        let Error::Compile { kernel, log } = &error else { panic!("{error}") };
        assert!(kernel == "sum" && log.contains("sum.cu(3): error"), "{log}");
    }

    #[test]
    fn error_inside_a_header_names_the_header() {
        if skipped() {
            return;
        }
        let source = SUM.replace("[&](u64, u32 value) { mine += value; }", "1");
        let error = compile(&source, "sum", (8, 0)).expect_err("1 cannot be called");
        assert!(matches!(&error, Error::Compile { log, .. } if log.contains("gpuvm.cuh(")), "{error}");
    }

    #[test]
    fn zero_byte_in_a_source_is_refused() {
        let error = compile("\0", "sum", (8, 0)).expect_err("a zero byte");
        assert!(matches!(error, Error::Compile { .. }), "{error}");
    }
}
