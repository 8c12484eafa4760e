//! The PTX under `ptx/` is what NVRTC makes of the device code today. Needs NVRTC, which the test script fetches where
//! it may.

use std::path::PathBuf;
use std::process::Command;

#[test]
fn committed_ptx_is_what_nvrtc_makes_of_every_kernel() {
    let Some(library) = std::env::var_os("GPUVM_NVRTC") else {
        println!("skipped: GPUVM_NVRTC does not name libnvrtc.so.12 (PyPI package nvidia-cuda-nvrtc-cu12)");
        return;
    };
    let output = Command::new("python3")
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("compile_ptx.py"))
        .arg(library)
        .arg("--check")
        .output()
        .expect("python3 runs");
    let modules = String::from_utf8_lossy(&output.stdout);
    println!("{modules}");
    assert!(output.status.success(), "{modules}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(modules.lines().count(), gpuvm_kernels::PTX.len());
    for (module, ptx) in gpuvm_kernels::PTX {
        assert!(modules.contains(module) && ptx.contains(".visible .entry"));
    }
}
