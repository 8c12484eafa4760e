#!/usr/bin/env bash
# Runs every test of the workspace: bash tests/all.sh [arguments of cargo test]
#
# Fetches what the tests need beyond Rust and a C++ compiler where it may; a test that lacks something says
# "skipped:" and why. Ends on one line that counts all tests. The full output is kept in target/test-output.log.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p target

# NVRTC, of a pinned 12.x: what compiles the kernels to PTX, without a GPU or a CUDA toolkit.
nvrtc=target/nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12
if [ -z "${GPUVM_NVRTC:-}" ] && [ ! -e "$nvrtc" ]; then
  python3 -m pip install --quiet --disable-pip-version-check --no-deps --target target/nvrtc \
    nvidia-cuda-nvrtc-cu12==12.0.140 >target/nvrtc.log 2>&1 ||
    echo "NVRTC could not be installed (target/nvrtc.log says why): the PTX test will be skipped"
fi
[ -e "$nvrtc" ] && export GPUVM_NVRTC="${GPUVM_NVRTC:-$PWD/$nvrtc}"

cargo test --workspace --no-fail-fast "$@" -- --show-output 2>&1 | tee target/test-output.log
status=${PIPESTATUS[0]}

# Features parquet and rdma, this one in a virtual machine. Not if a part of the tests was asked for.
if [ $# = 0 ]; then
  cargo test -p gpuvm-loaders --features parquet --test parquet -- --show-output 2>&1 | tee -a target/test-output.log
  parquet=${PIPESTATUS[0]}
  [ "$status" != 0 ] || status=$parquet
  bash tests/rdma.sh 2>&1 | tee -a target/test-output.log
  rdma=${PIPESTATUS[0]}
  [ "$status" != 0 ] || status=$rdma
fi

echo
grep -h '^skipped: ' target/test-output.log
awk '/^test result: / { for (i = 1; i <= NF; ++i) {
       if ($i ~ /^passed/) passed += $(i - 1)
       if ($i ~ /^failed/) failed += $(i - 1)
       if ($i ~ /^ignored/) ignored += $(i - 1) } }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, ignored }' target/test-output.log
exit "$status"
