//! Builds `paged_slice.cc` with warps of one lane and of 32, and runs it.

use std::path::PathBuf;
use std::process::Command;

fn run(lanes: u32) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("paged_slice_{lanes}"));
    let compiled = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()))
        .args(["-std=c++20", "-O1", "-g", "-pthread", "-Wall", "-Wextra"])
        .arg(format!("-DGPUVM_LANES={lanes}"))
        .arg("-I")
        .arg(folder.join("cuda"))
        .arg(folder.join("tests/paged_slice.cc"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the C++ compiler that built the CPU device");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn embedders_kernel_reads_a_paged_array_with_warps_of_one_lane() {
    run(1);
}

#[test]
fn embedders_kernel_reads_a_paged_array_with_warps_of_32_lanes() {
    run(32);
}
