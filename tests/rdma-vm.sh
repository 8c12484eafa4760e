#!/usr/bin/env bash
# Runs a program in a small virtual machine with two RDMA devices, rxe0 and rxe1 (SoftRoCE): real verbs without a NIC.
#
#   bash tests/rdma-vm.sh setup                  installs what it takes and builds the machine, once: root, Debian, amd64
#   bash tests/rdma-vm.sh run PROGRAM [ARG...]   boots it, runs PROGRAM in it, ends with its exit code
#
# No KVM, no network when it runs, nothing of the kernel outside: QEMU emulates the processor. Set by the environment:
#   RDMA_VM_DIR        where the machine is kept; target/rdma-vm if not given
#   RDMA_VM_PROGRAMS   programs that PROGRAM calls, put at the same path
#   RDMA_VM_FOLDER     a folder that becomes /data
#   RDMA_VM_BEFORE     a shell command to run in the machine before PROGRAM
#   RDMA_VM_TIMEOUT    seconds, 300 if not given
#   RDMA_VM_MEMORY     MiB, 1024 if not given
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
state=${RDMA_VM_DIR:-$repository/target/rdma-vm}
libraries=/usr/lib/x86_64-linux-gnu

# Copies program $2 to file $3 (bin/ if not given) under root $1, without symbols, and the shared libraries that it needs.
copy_program() {
  local root=$1 path target library
  path=$(readlink -f "$(command -v "$2")")
  target=$root${3:-/bin/$(basename "$path")}
  mkdir -p "$(dirname "$target")"
  strip -o "$target" "$path" 2>/dev/null || install -m755 "$path" "$target"
  chmod 755 "$target"
  for library in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*'); do
    [ -e "$root$library" ] || install -D -m755 "$library" "$root$library"
  done
}

archive() { # of all files under root $1
  (cd "$1" && find . | cpio -o -H newc --quiet) | gzip -1
}

# The ELF file inside kernel image $1 (Linux boot protocol: setup_sects, payload_offset, payload_length). QEMU starts it by
# its PVH note, and the emulated processor need not unpack it.
unpack_kernel() (
  set +o pipefail # xz stops reading first
  sectors=$(od -An -tu1 -j497 -N1 "$1")
  offset=$(od -An -tu4 -j584 -N4 "$1")
  length=$(od -An -tu4 -j588 -N4 "$1")
  tail -c +$(((sectors + 1) * 512 + offset + 1)) "$1" | head -c $((length)) | xz -dc --single-stream
)

setup() {
  [ -e "$state/ready" ] && return
  rm -rf "$state" && mkdir -p "$state" && cd "$state"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends qemu-system-x86 ibverbs-providers iproute2 busybox-static kmod cpio \
    xz-utils binutils >/dev/null
  # Debian's kernel for clouds has no rdma_rxe. Only unpacked: to install it would touch the boot loader.
  local package version root=$state/root module driver
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')
  apt-get download -qq "$package" 2>/dev/null
  dpkg-deb -x "$package"_*.deb kernel && rm "$package"_*.deb
  version=$(ls kernel/lib/modules)
  depmod -b kernel "$version"
  unpack_kernel "kernel/boot/vmlinuz-$version" >vmlinux

  mkdir -p "$root"/{bin,proc,sys,dev,tmp,etc,modules}
  # crc32_generic is not named as a dependency; without it rxe adds no device.
  for module in crc32_generic rdma_rxe ib_uverbs dummy; do
    modprobe -d kernel -S "$version" --show-depends "$module"
  done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r module; do
    cp "$module" "$root/modules/"
    echo "/modules/${module##*/}" >>"$root/etc/modules"
  done
  for driver in busybox ip rdma; do copy_program "$root" "$driver"; done
  for driver in sh mount insmod poweroff sleep; do ln -sf busybox "$root/bin/$driver"; done
  install -D -m644 /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/rxe.driver"
  driver=$(readlink -f "$libraries"/libibverbs/librxe-rdmav34.so)
  install -D -m755 "$driver" "$root$libraries/libibverbs/librxe-rdmav34.so"
  cat >"$root/init" <<'INIT'
#!/bin/sh
export PATH=/bin # /bin/ip is written out: the shell has an ip of its own, which knows less
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
# The programs may lie in /tmp, which therefore is no file system of its own.
mkdir -p /tmp
ulimit -l unlimited
while read -r module; do insmod "$module" || echo "rdma-vm: insmod $module failed"; done </etc/modules
/bin/ip link set lo up
for i in 0 1; do
  /bin/ip link add nic$i type dummy; /bin/ip addr add 10.77.$i.1/24 dev nic$i; /bin/ip link set nic$i up mtu 4200
  rdma link add rxe$i type rxe netdev nic$i
done
for i in 0 1 2 3 4 5 6 7 8 9; do
  case "$(cat /sys/class/infiniband/rxe*/ports/1/state)" in *ACTIVE*ACTIVE*) break;; esac; sleep 0.1
done
. /etc/settings
export GPUVM_TEST_NICS=rxe0,rxe1 GPUVM_DATASETS=/data
eval "${BEFORE:-:}"
set -- ; while read -r argument; do set -- "$@" "$argument"; done </etc/arguments
"$@"; echo "rdma-vm: exit code $?"
poweroff -f
INIT
  chmod 755 "$root/init"
  ln -sf busybox "$root/bin/cat"
  archive "$root" >base.cpio.gz
  rm -rf kernel
  touch ready
}

run() {
  [ -e "$state/ready" ] || { echo "rdma-vm: bash tests/rdma-vm.sh setup comes first" >&2; exit 125; }
  local work program root accelerator=tcg,thread=multi
  work=$(mktemp -d "${TMPDIR:-/tmp}/rdma-vm.XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$work'" EXIT
  root=$work/root
  mkdir -p "$root/etc" "$root/data"
  copy_program "$root" "$1" /bin/program
  shift
  for program in ${RDMA_VM_PROGRAMS:-}; do copy_program "$root" "$program" "$(readlink -f "$program")"; done
  [ -z "${RDMA_VM_FOLDER:-}" ] || cp -R "$RDMA_VM_FOLDER/." "$root/data/"
  { echo /bin/program; [ $# = 0 ] || printf '%s\n' "$@"; } >"$root/etc/arguments"
  printf 'BEFORE=%q\n' "${RDMA_VM_BEFORE:-:}" >"$root/etc/settings"
  # A later archive adds to the earlier one.
  { cat "$state/base.cpio.gz"; archive "$root"; } >"$work/initrd"
  timeout "${RDMA_VM_TIMEOUT:-300}" qemu-system-x86_64 -accel $accelerator -smp 2 -m "${RDMA_VM_MEMORY:-1024}" -M pc \
    -nodefaults -no-user-config -display none -no-reboot -serial "file:$work/log" -kernel "$state/vmlinux" \
    -initrd "$work/initrd" </dev/null \
    -append "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable random.trust_cpu=on" ||
    echo "rdma-vm: QEMU ended with $? (124: it took longer than ${RDMA_VM_TIMEOUT:-300} s)"
  # Carriage returns and control sequences are the console's.
  tr -d '\r' <"$work/log" | sed 's/\x1b[^a-zA-Z]*[a-zA-Z]//g' | tee "$state/last.log"
  local code
  code=$(sed -n 's/^.*rdma-vm: exit code //p' "$state/last.log" | tail -n 1)
  exit "${code:-125}"
}

case ${1:-} in
  setup) setup ;;
  run) shift; run "$@" ;;
  *) sed -n 2,13p "$0"; exit 2 ;;
esac
