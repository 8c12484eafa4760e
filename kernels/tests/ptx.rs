//! The PTX under `ptx/` is what NVRTC makes of the device code today, and kernels that embed it compile. Needs NVRTC,
//! which the test script fetches where it may.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What `compile_ptx.py` prints; `None` where there is no NVRTC.
fn compile_ptx(arguments: &[&Path]) -> Option<String> {
    let Some(library) = std::env::var_os("GPUVM_NVRTC") else {
        println!("skipped: GPUVM_NVRTC does not name libnvrtc.so.12 (PyPI package nvidia-cuda-nvrtc-cu12)");
        return None;
    };
    let output = Command::new("python3")
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("compile_ptx.py"))
        .arg(library)
        .args(arguments)
        .output()
        .expect("python3 runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{printed}");
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    Some(printed)
}

#[test]
fn kernels_of_the_example_and_of_the_benchmark_compile() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (file, kernel) in
        [("engine/examples/own_kernel.cu", "histogram"), ("benches/paging.cu", "fault_pages")]
    {
        let Some(kernels) = compile_ptx(&[Path::new("--source"), &workspace.join(file)]) else { return };
        assert!(kernels.contains(kernel), "{kernels}");
    }
}

#[test]
fn committed_ptx_is_what_nvrtc_makes_of_every_kernel() {
    let Some(modules) = compile_ptx(&[Path::new("--check")]) else { return };
    assert_eq!(modules.lines().count(), gpuvm_kernels::modules().count());
    for module in gpuvm_kernels::modules() {
        let ptx = gpuvm_kernels::ptx(module).expect("a module");
        assert!(modules.contains(module) && ptx.contains(".visible .entry"));
    }
}
