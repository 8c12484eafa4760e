#!/usr/bin/env bash
# Every check and benchmark that needs a GPU, in one call and one table.
#
#   bash tests/device.sh [OPTIONS]             builds everything and runs it: a GPU and cargo
#   bash tests/device.sh pack DIR              builds, and copies what is needed to run into DIR
#   bash DIR/device.sh run DIR [OPTIONS]       runs what was packed: a GPU, no cargo, no network
#
#   --only NAME,...        of tests, sanitizer, paging, transport, traversal, grid; all if not given
#   --out DIR              where logs and figures go; $OUT if not given, else output/ beside what was packed
#   --timeout SECONDS      of a benchmark, 540 if not given
#   -- ARGUMENTS           for the traversal benchmark: --scale 27 --graph kron
#
# Ends on a table of each check, its outcome, its seconds and its log. Exit code 1 if a check failed, be it for want of a
# GPU, and 2 if nothing could be run; what lacks a program of its own is skipped by name.
set -uo pipefail

names=(tests sanitizer paging transport traversal grid)
only=" ${names[*]} "
out=
seconds=540
traversal=()
results=()
failed=0

die() {
  echo "error: $1" >&2
  exit 2
}

# A program that cargo builds for kind $1 ("test", "bench" or "bin") under the name $2.
build() {
  local kind=$1 name=$2 messages
  shift 2
  messages=$(cargo "$@" --message-format=json-render-diagnostics) || return 1
  printf '%s\n' "$messages" | grep "\"kind\":\[\"$kind\"\]" | grep "\"name\":\"$name\"" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# Copies the program of kind and name $2, $3 to file $1, without symbols.
pack_program() {
  local target=$1 path
  shift
  path=$(build "$@") && [ -n "$path" ] || die "cargo cannot build the $1 $2"
  strip -o "$target" "$path" || die "$path cannot be stripped"
}

pack() {
  local folder
  mkdir -p "$1" && folder=$(cd "$1" && pwd) || exit 2
  cd "$repository" || exit 2
  pack_program "$folder/gpuvm-graph" bin gpuvm-graph build --release --bin gpuvm-graph
  pack_program "$folder/tests" test device test --release --no-run --test device
  pack_program "$folder/traversal" bench device bench --no-run --bench device
  pack_program "$folder/transport" bench transport bench --no-run --bench transport
  rm -f "$folder/paging"
  if grep -q '^name = "paging"$' Cargo.toml; then
    pack_program "$folder/paging" bench paging bench --no-run --bench paging
  fi
  rm -rf "$folder/graphs"
  cp -R datasets/graphs "$folder/graphs" && cp tests/device.sh "$folder/device.sh" || exit 2
  echo "packed in $folder: $(du -sh "$folder" | cut -f 1)"
}

wanted() { [[ $only == *" $1 "* ]]; }

note() {
  results+=("$(printf '%-18s %-34s %8s  %s' "$1" "$2" "$3" "$4")")
}

# Runs the command after name and limit in seconds, with its output in a log.
check() {
  local name=$1 limit=$2 log=$out/$1.log begin=$SECONDS status outcome
  shift 2
  if [ -n "$no_gpu" ]; then
    failed=1
    note "$name" "failed: $no_gpu" 0 -
    return
  fi
  echo "== $name"
  timeout -k 10 "$limit" "$@" >"$log" 2>&1
  status=$?
  case $status in
    0) outcome=passed ;;
    124 | 137) outcome="failed: not done in $limit s" ;;
    *) outcome="failed: exit code $status" ;;
  esac
  if [ "$status" -ne 0 ]; then
    failed=1
    tail -n 20 "$log"
  fi
  note "$name" "$outcome" $((SECONDS - begin)) "$log"
}

# compute-sanitizer's tool $1 on the program. Its warps meet by spinning, which a tool that slows each access makes slow,
# so the graph is small; the budget is the least that works, so that pages are evicted.
sanitize() {
  local tool=$1 algorithm=$2 run least
  shift 2
  run=("$algorithm" --graph "$packed/graphs/targz/bfly.tar.gz" --device cuda:0 --access paged --page-size 4K "$@")
  least=$("$packed/gpuvm-graph" plan "${run[@]}" --json 2>/dev/null |
    sed -n 's/.*"least_bytes": *\([0-9]*\).*/\1/p')
  check "$tool-$algorithm" 180 "$sanitizer" --tool "$tool" "${options[@]}" --error-exitcode 3 \
    "$packed/gpuvm-graph" "${run[@]}" --gpu-mem "${least:-0}" --verify
}

find_sanitizer() {
  command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null
}

# The toolkit's NVRTC, which compiles the kernels of the paging benchmark and of some tests.
find_nvrtc() {
  ls "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvrtc.so* 2>/dev/null | head -n 1 | grep .
}

run() {
  packed=$(cd "$1" 2>/dev/null && pwd) || die "there is no folder $1"
  [ -x "$packed/gpuvm-graph" ] || die "$1 holds nothing to run, pack into it first"
  out=${out:-${OUT:-$packed/output}}
  mkdir -p "$out" || exit 2
  # Answers for the tests, and nothing of a user's own.
  export GPUVM_DATASETS=$packed/graphs GPUVM_CACHE_DIR=$out/cache
  if [ -z "${GPUVM_NVRTC:-}" ] && nvrtc=$(find_nvrtc); then
    # A file that calls itself by a newer name than libnvrtc.so.12 is found by the loader's path alone.
    export GPUVM_NVRTC=$nvrtc LD_LIBRARY_PATH=$(dirname "$nvrtc")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi

  command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.free --format=csv,noheader
  no_gpu=
  if ! "$packed/gpuvm-graph" plan cc --graph "$packed/graphs/mtx/karate.mtx" --device cuda:0 >"$out/gpu.log" 2>&1; then
    no_gpu="no GPU"
    cat "$out/gpu.log"
  fi

  if wanted tests; then
    check tests 400 "$packed/tests" --ignored --test-threads=1
  fi
  if wanted sanitizer; then
    if sanitizer=$(find_sanitizer); then
      options=(--leak-check no)
      sanitize memcheck bfs --source 0 --parents
      sanitize memcheck cc
      sanitize memcheck sssp --source 0 --weights random:1
      options=()
      sanitize racecheck bfs --source 0
      sanitize racecheck cc
      sanitize racecheck sssp --source 0 --weights random:1
    else
      note sanitizer "skipped: no compute-sanitizer" 0 -
    fi
  fi
  if wanted paging; then
    if [ -x "$packed/paging" ]; then
      check paging "$seconds" "$packed/paging" --bench
    else
      note paging "skipped: not packed" 0 -
    fi
  fi
  if wanted transport; then
    check transport "$seconds" "$packed/transport" --json "$out/transport.json" --bench
  fi
  if wanted traversal; then
    # Time to end by itself, with a table of what there is.
    [[ " ${traversal[*]} " == *" --time-limit"* ]] || traversal+=(--time-limit $((seconds > 120 ? seconds - 60 : seconds / 2)))
    check traversal "$seconds" "$packed/traversal" --only bfs,cc,sssp --json "$out/traversal.json" "${traversal[@]}"
  fi
  if wanted grid; then
    check grid "$seconds" "$packed/traversal" --only grid --json "$out/grid.json"
  fi

  echo
  printf '%-18s %-34s %8s  %s\n' check outcome seconds log
  printf '%s\n' "${results[@]}"
  exit "$failed"
}

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mode=all
folder=$repository/target/device
case ${1:-} in
  pack | run)
    mode=$1
    folder=${2:-}
    [ -n "$folder" ] || die "$mode needs a folder"
    shift 2
    ;;
esac
while [ $# -gt 0 ]; do
  case $1 in
    --)
      shift
      traversal=("$@")
      break
      ;;
    --only | --out | --timeout) [ -n "${2:-}" ] || die "$1 needs a value" ;;&
    --only)
      only=" ${2//,/ } "
      for name in $only; do
        [[ " ${names[*]} " == *" $name "* ]] || die "there is no check $name, only ${names[*]}"
      done
      ;;
    --out) out=$2 ;;
    --timeout)
      seconds=$2
      [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "$seconds is no number of seconds"
      ;;
    *) die "there is no option $1" ;;
  esac
  shift 2
done

case $mode in
  pack) pack "$folder" ;;
  run) run "$folder" ;;
  all)
    (pack "$folder") || exit 2
    run "$folder"
    ;;
esac
