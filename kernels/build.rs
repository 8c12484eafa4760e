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
    println!("cargo:rerun-if-changed=ptx");
    println!("cargo:rerun-if-changed=src/layout.rs");
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out_dir.join("layout_asserts.cuh"), layout_asserts()).expect("OUT_DIR can be written");
    fs::write(out_dir.join("ptx.rs"), ptx_modules()).expect("OUT_DIR can be written");

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

/// The modules under `ptx/`, an array of names and bytes.
fn ptx_modules() -> String {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("ptx");
    let files = fs::read_dir(&folder).expect("the modules are committed").flatten();
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".ptx.gz")?.to_owned()))
        .collect();
    names.sort();
    let row = |name: &String| {
        let path = folder.join(format!("{name}.ptx.gz"));
        format!("({name:?}, include_bytes!({:?}).as_slice()),", path.to_str().expect("a path of UTF-8"))
    };
    format!("&[{}]", names.iter().map(row).collect::<String>())
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
