//! Writes the assertions that device code and Rust agree on every shared struct, and compiles the CPU device.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

#[path = "src/layout.rs"]
#[allow(dead_code, missing_docs, reason = "the build reads the lists only")]
mod layout;

fn main() {
    println!("cargo:rerun-if-changed=cuda");
    println!("cargo:rerun-if-changed=src/layout.rs");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out_dir.join("layout_asserts.cuh"), layout_asserts()).expect("OUT_DIR can be written");
    println!("cargo:rerun-if-changed=ptx");
    fs::write(out_dir.join("ptx.rs"), ptx_table()).expect("OUT_DIR can be written");

    compile_cpu_device(&out_dir, 1);
    if env::var_os("CARGO_FEATURE_EMULATED_WARPS").is_some() {
        compile_cpu_device(&out_dir, 32);
    }
}

fn compile_cpu_device(out_dir: &PathBuf, lanes: u32) {
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .file("cuda/cpu_device.cc")
        .include("cuda")
        .include(out_dir)
        .define("GPUVM_LANES", lanes.to_string().as_str())
        // The CPU device is the product for users without a GPU: never build it slow.
        .opt_level(3)
        .flag_if_supported("-fno-exceptions")
        .flag_if_supported("-fno-rtti")
        .warnings(true)
        .extra_warnings(true)
        .compile(&format!("gpuvm_cpu_device_{lanes}"));
}

/// The files under `ptx/`, as a Rust table of their names and contents.
fn ptx_table() -> String {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("ptx");
    let files = fs::read_dir(folder).expect("kernels/ptx is part of the sources");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    paths.sort();
    let mut text = String::from("const PTX: &[(&str, &[u8])] = &[\n");
    for path in paths {
        let name =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".ptx.gz"));
        let Some(name) = name else { continue };
        writeln!(text, "    ({name:?}, include_bytes!({path:?})),").expect("a String takes any text");
    }
    text + "];\n"
}

/// `static_assert`s of every shared struct's size, alignment and fields, and of every shared constant.
fn layout_asserts() -> String {
    let mut text = String::from(
        "// Written by build.rs from src/layout.rs.\n#pragma once\n#include \"layout.cuh\"\nGPUVM_NAMESPACE_BEGIN\n",
    );
    for layout in layout::STRUCTS {
        let name = layout.name;
        writeln!(
            text,
            "static_assert(sizeof({name}) == {} && alignof({name}) == {});",
            layout.size, layout.align
        )
        .expect("a String takes any text");
        for (field, offset, size) in layout.fields {
            writeln!(
                text,
                "static_assert(__builtin_offsetof({name}, {field}) == {offset} && sizeof({name}::{field}) == {size});"
            )
            .expect("a String takes any text");
        }
    }
    for (name, value) in layout::CONSTANTS {
        let camel: String = name
            .split('_')
            .map(|word| {
                let (head, tail) = word.split_at(1);
                head.to_owned() + &tail.to_lowercase()
            })
            .collect();
        writeln!(text, "static_assert(k{camel} == {value}ull);").expect("a String takes any text");
    }
    text + "GPUVM_NAMESPACE_END\n"
}
