#!/usr/bin/env python3
"""Compiles every kernel to PTX with NVRTC; no GPU and no CUDA toolkit needed.

    python3 kernels/compile_ptx.py LIBRARY [--check]
    python3 kernels/compile_ptx.py LIBRARY --source FILE

LIBRARY is the path of libnvrtc.so.12 of the PyPI package nvidia-cuda-nvrtc-cu12, version 12.0.140, whose PTX drivers
from 525 on take. Writes kernels/ptx/*.ptx.gz; with --check compares the text instead, and exits with 1 if a module
differs. Prints each module and its kernels. The second form compiles an embedder's source for compute capability 9.0,
writes nothing and prints its kernels.
"""
import ctypes
import gzip
import pathlib
import re
import sys

KERNELS = pathlib.Path(__file__).parent
CUDA = KERNELS / "cuda"
PTX = KERNELS / "ptx"
WEIGHTS = ("unit", "hash", "u8", "u16", "u32", "f32", "f64")
TRAVERSALS = ["bfs", "bfs_batch", "components", "page_rank"]
TRAVERSALS += [algorithm + weight for algorithm in ("sssp_", "sssp_parents_") for weight in WEIGHTS]
# Each module with its definitions. Faults that ask NICs cost registers, so they have kernels of their own.
MODULES = {m: ["GPUVM_MODULE_" + m.upper()] for m in TRAVERSALS + ["gather", "pull", "queues"]}
MODULES |= {m + "_queues": MODULES[m] + ["GPUVM_QUEUES"] for m in TRAVERSALS}
# The oldest GPUs whose atomics have orders and scopes.
OPTIONS = ["--gpu-architecture=compute_70", "--std=c++17", "-default-device"]


def compile_file(nvrtc, file, options):
    """PTX of one file, or raises RuntimeError with the compiler's log."""
    headers = {p.name: p.read_bytes() for p in CUDA.glob("*.cuh")}
    names = (ctypes.c_char_p * len(headers))(*[n.encode() for n in headers])
    texts = (ctypes.c_char_p * len(headers))(*headers.values())
    program = ctypes.c_void_p()
    source = file.read_bytes()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, file.name.encode(), len(headers), texts, names):
        raise RuntimeError("nvrtcCreateProgram failed")
    options = [o.encode() for o in options]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    # NVRTC numbers the calls of a process, all modules together, in comments: the same module compiled alone has others.
    return re.sub(r"// callseq \d+, \d+", "// callseq", ptx.value.decode())


def kernels_of(ptx):
    return re.findall(r"\.visible \.entry (\w+)", ptx)


def main():
    check = "--check" in sys.argv[2:]
    nvrtc = ctypes.CDLL(sys.argv[1])
    if sys.argv[2:3] == ["--source"]:
        file = pathlib.Path(sys.argv[3])
        ptx = compile_file(nvrtc, file, ["--gpu-architecture=compute_90"] + OPTIONS[1:])
        print(f"{file.name}: {', '.join(kernels_of(ptx))}")
        return 0
    PTX.mkdir(exist_ok=True)
    wrong = 0
    for module, definitions in MODULES.items():
        ptx = compile_file(nvrtc, CUDA / "kernels.cu", OPTIONS + ["-D" + name for name in definitions])
        file = PTX / (module + ".ptx.gz")
        kernels = kernels_of(ptx)
        same = not check or (file.exists() and gzip.decompress(file.read_bytes()).decode() == ptx)
        print(f"{module}: {', '.join(kernels)}: {'compiled' if same and kernels else 'DIFFERS from ' + file.name}")
        wrong += not (same and kernels)
        if not check:
            # Without a time, so that the same text gives the same file.
            file.write_bytes(gzip.compress(ptx.encode(), 9, mtime=0))
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
