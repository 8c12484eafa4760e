#!/usr/bin/env bash
# Runs tests/rdma.rs over two SoftRoCE devices in a virtual machine: bash tests/rdma.sh [arguments of the test program]
#
# Installs what that takes (docs/rdma.md lists it) where it may: as root on Debian. Anywhere else it says why not, and that is
# no failure.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p target

skip() {
  echo "skipped: tests/rdma.rs: $1"
  exit 0
}

[ -e /etc/debian_version ] && command -v apt-get >/dev/null || skip "the virtual machine is built from packages of Debian"
[ "$(dpkg --print-architecture)" = amd64 ] || skip "the virtual machine is an amd64"
[ "$(id -u)" = 0 ] || skip "only root may install what it takes"

# What feature rdma is built with.
packages=(make cmake pkg-config python3 libclang-dev libibverbs-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
done
if [ "${#missing[@]}" != 0 ]; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >target/rdma-packages.log 2>&1 || skip "cannot install ${missing[*]} (target/rdma-packages.log says why)"
fi
bash tests/rdma-vm.sh setup >target/rdma-vm.log 2>&1 ||
  skip "the virtual machine cannot be built (target/rdma-vm.log says why)"

# Cargo starts the test program through the machine: its output and exit code come through.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="bash $PWD/tests/rdma-vm.sh run"
export RDMA_VM_FOLDER="$PWD/datasets/graphs"
export RDMA_VM_PROGRAMS="$PWD/target/debug/gpuvm-graph"
exec cargo test --features rdma --test rdma -- --test-threads=1 --show-output "$@"
