#!/usr/bin/env python3
"""Compiles every kernel to PTX with NVRTC; no GPU and no CUDA toolkit needed.

    python3 kernels/compile_ptx.py LIBRARY ASSERTS [OUTPUT]

LIBRARY is the path of libnvrtc.so.12 (PyPI package nvidia-cuda-nvrtc-cu12), ASSERTS that of layout_asserts.cuh as the
build wrote it, OUTPUT where the PTX goes. Prints the kernels; exits with 1 and the compiler's log if one is missing.
"""
import ctypes
import pathlib
import re
import sys

CUDA = pathlib.Path(__file__).parent / "cuda"
# The oldest GPUs whose atomics have orders and scopes.
OPTIONS = [b"--gpu-architecture=compute_70", b"--std=c++17", b"-default-device"]


def compile_to_ptx(library, asserts):
    """PTX of kernels.cu, or raises RuntimeError with the compiler's log."""
    nvrtc = ctypes.CDLL(library)
    headers = {p.name: p.read_bytes() for p in CUDA.glob("*.cuh")}
    headers["layout_asserts.cuh"] = pathlib.Path(asserts).read_bytes()
    names = (ctypes.c_char_p * len(headers))(*[n.encode() for n in headers])
    texts = (ctypes.c_char_p * len(headers))(*headers.values())
    program = ctypes.c_void_p()
    source = (CUDA / "kernels.cu").read_bytes()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", len(headers), texts, names):
        raise RuntimeError("nvrtcCreateProgram failed")
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), (ctypes.c_char_p * len(OPTIONS))(*OPTIONS))
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value.decode()


def main():
    ptx = compile_to_ptx(sys.argv[1], sys.argv[2])
    if len(sys.argv) > 3:
        pathlib.Path(sys.argv[3]).write_text(ptx)
    declared = re.findall(r"__global__ void (\w+)", (CUDA / "kernels.cu").read_text())
    compiled = set(re.findall(r"\.visible \.entry (\w+)", ptx))
    for kernel in declared:
        print(f"{kernel}: {'compiled' if kernel in compiled else 'MISSING'}")
    return 0 if declared and compiled == set(declared) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
