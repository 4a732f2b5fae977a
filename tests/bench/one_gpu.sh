#!/bin/bash
# What to run on a machine with one GPU, from the root of the checkout:
#
#   bash tests/bench/one_gpu.sh first       8 minutes at most: whether it runs, and runs right
#   bash tests/bench/one_gpu.sh second      7 minutes at most: how fast
#   bash tests/bench/one_gpu.sh third       4 minutes at most: blocks that come from the host's memory
#   bash tests/bench/one_gpu.sh BLOCK...    some of the blocks of tests/bench/gpu/blocks.py
#   bash tests/bench/one_gpu.sh dry         all of them on a CPU, small: that they run through
#   bash tests/bench/one_gpu.sh long        an hour and a half: shadows of ranks, for a planner's table
#
# A machine without a network that has torch, transformers, peft and pytest, but not the rest: beforehand, elsewhere,
# `pack 3.12` puts what it lacks for that Python into .wheels, with the state to compare with and an NCCL that lets ranks
# share a card (the package nvidia-nccl-cu13 is 200 MB to fetch). Name more wheels behind the version, as `pack 3.12
# transformers tokenizers`, where it lacks more. The checkout and .wheels travel; there run `setup` first, 10 s: what
# is unpacked stays out of the machine's own Python. Where the project is installed, neither is needed.
set -u -o pipefail
BENCH=tests/bench
OUT=${OUT:-one_gpu_out}
SITE=${SITE:-$HOME/.latentloom_one_gpu}
PYTHON=${PYTHON:-python3}
BEFORE=8c3eb376
MOST_MIB=60
CAPABILITY=${CAPABILITY:-90} # of the GPU, whose kernels alone are kept in NCCL
NCCL=2.30.7
WHEELS=(
  diffusers torchao ftfy wcwidth pydantic pydantic_core annotated_types typing_inspection lazy_importer
  importlib_metadata truststore
)
[ -d "$SITE" ] && export PYTHONPATH=$SITE${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUNBUFFERED=1

pack() {
  local python=$1
  shift
  mkdir -p .wheels && rm -f .wheels/*.whl && wheels .wheels "$python" -c constraints.txt "${WHEELS[@]}" "$@" || return 1
  git archive --prefix=latentloom/ "$BEFORE" -- __init__.py __main__.py parallel pipelines nodes tests/bench \
    tests/support ':!pipelines/bobbin/model' ':!pipelines/bobbin/*.jpg' | xz >.wheels/before.tar.xz || return 1
  [ -f .wheels/libnccl.so.2.xz ] || nccl || return 1
  sizes
}
wheels() { # FOLDER PYTHON ...: wheels for Linux on x86-64
  local folder=$1 python=$2
  shift 2
  "$PYTHON" -m pip download -q --no-deps --only-binary=:all: --python-version "$python" --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_18_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 -d "$folder" "$@"
}
nccl() {
  local folder
  folder=$(mktemp -d)
  wheels "$folder" 3.12 "nvidia-nccl-cu13==$NCCL" &&
    "$PYTHON" $BENCH/gpu/nccl.py "$folder"/*.whl .wheels/libnccl.so.2.xz --capability "$CAPABILITY"
  local status=$?
  rm -rf "$folder"
  return $status
}
sizes() { # what travels, which may be no more than $MOST_MIB together
  {
    echo "tree $(git ls-files -z --cached --others --exclude-standard | xargs -0 cat | wc -c)"
    echo "wheels $(cat .wheels/*.whl | wc -c)"
    echo "$BEFORE $(wc -c <.wheels/before.tar.xz)"
    echo "NCCL $(wc -c <.wheels/libnccl.so.2.xz)"
  } | awk -v most=$MOST_MIB '{ all += $2; printf "%-10s %5.1f MiB\n", $1, $2 / 1048576 }
    END { printf "%-10s %5.1f MiB of %d\n", "all", all / 1048576, most; exit all > most * 1048576 }'
}
setup() {
  local -a parts=()
  mkdir -p "$SITE/before"
  tar -xJf .wheels/before.tar.xz -C "$SITE/before" & parts+=($!)
  xz -dc .wheels/libnccl.so.2.xz >"$SITE/libnccl.so.2" & parts+=($!)
  "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$SITE" .wheels/*.whl &
  parts+=($!)
  for part in "${parts[@]}"; do wait "$part" || return 1; done
  ln -sfn "$PWD" "$SITE/latentloom"
}
blocks() {
  mkdir -p "$OUT" && "$PYTHON" $BENCH/gpu/blocks.py --out "$OUT" --site "$SITE" "$@"
}
long() { # which kernel at a rank's shapes; pinned memory; streams; what a rank of P computes; the error of bf16
  go $BENCH/one_gpu.py attention linear moves lanes
  go $BENCH/shadow_rank.py --models flux-1024 qwen-1328 \
    --plans ulysses=2 ulysses=4 ulysses=8 ring=4 allgather=2 allgather=8
  go $BENCH/shadow_rank.py --models flux-2048 --plans ulysses=4 ulysses=8 --skip-errors
  go $BENCH/shadow_rank.py --models wan-720p-81f --plans ulysses=4 ulysses=8 allgather=8 --runs 1 --skip-errors
}
go() { # what fails does not keep the rest from being tried
  "$PYTHON" "$@" || STATUS=1
}
STATUS=0
case ${1:-} in
  pack | sizes | setup | long) "$@" || STATUS=1 ;;
  dry) CUDA_VISIBLE_DEVICES='' blocks all --dry || STATUS=1 ;;
  '' | -*)
    sed -n 's/^# \{0,1\}//; 2,15p' "$0" >&2
    STATUS=2
    ;;
  *) blocks "$@" || STATUS=1 ;;
esac
exit "$STATUS"
