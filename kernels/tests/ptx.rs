//! Every kernel compiles to PTX: what a GPU's driver takes. Needs NVRTC, which the test script fetches where it may.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn every_kernel_compiles_to_ptx() {
    let Some(library) = std::env::var_os("GPUVM_NVRTC") else {
        println!("skipped: GPUVM_NVRTC does not name libnvrtc.so.12 (PyPI package nvidia-cuda-nvrtc-cu12)");
        return;
    };
    let asserts = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("layout_asserts.cuh");
    let (_, text) =
        gpuvm_kernels::SOURCES.iter().find(|(name, _)| *name == "layout_asserts.cuh").expect("a source");
    std::fs::write(&asserts, text).expect("can be written");
    let output = Command::new("python3")
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("compile_ptx.py"))
        .args([library.as_os_str(), asserts.as_os_str()])
        .output()
        .expect("python3 runs");
    let kernels = String::from_utf8_lossy(&output.stdout);
    println!("{kernels}");
    assert!(output.status.success(), "{kernels}{}", String::from_utf8_lossy(&output.stderr));
    assert!(kernels.lines().count() >= 5 && !kernels.contains("MISSING"));
}
