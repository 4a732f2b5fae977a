#!/bin/bash
# What to run on a machine with one GPU, in the order in which it pays; each block is under 8 minutes:
#
#   bash tests/bench/one_gpu.sh one | two | three | four | five | six      from the root of the checkout
#
# On a machine without a network that has torch, numpy and Pillow but not the rest: `wheels 3.12` beforehand, elsewhere,
# puts wheels for that Python into .wheels (45 MB); carry them along with the checkout, and run `setup` first. They stay
# out of the machine's own Python. Where the project is installed, neither is needed.
set -u -o pipefail
BENCH=tests/bench
OUT=${OUT:-one_gpu_out}
SITE=${SITE:-$HOME/.latentloom_one_gpu}
PYTHON=${PYTHON:-python3}
WHEELS=(
  diffusers transformers tokenizers huggingface_hub accelerate safetensors peft torchao sentencepiece protobuf ftfy psutil
  pydantic pydantic_core annotated_types typing_inspection typing_extensions packaging tqdm regex requests urllib3 certifi
  charset_normalizer idna pyyaml httpx2 httpcore2 h11 anyio truststore hf_xet typer click rich shellingham annotated_doc
  markdown_it_py mdurl pygments lazy_importer importlib_metadata zipp wcwidth
  pytest pytest_timeout pytest_xdist execnet pluggy iniconfig
)
[ -d "$SITE" ] && export PYTHONPATH=$SITE${PYTHONPATH:+:$PYTHONPATH}
export PYTHONUNBUFFERED=1

wheels() {
  "$PYTHON" -m pip download -q -c constraints.txt --no-deps --only-binary=:all: --python-version "$1" --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d .wheels \
    "${WHEELS[@]}"
}
setup() {
  "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$SITE" .wheels/*.whl &&
    ln -sfn "$PWD" "$SITE/latentloom"
}
one() { # 3 minutes: it runs at all; every kernel against fp64; what it costs to join, to abort and to join again
  go -m latentloom doctor
  paint gpu --devices cuda:0
  paint cpu --devices cpu
  CUDA_VISIBLE_DEVICES=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -n 1) paint uuid --devices cuda:0
  go $BENCH/one_gpu.py kernels join
}
two() { # 5 minutes: which kernel at a rank's shapes; masked keys; fp8; pinned memory
  go $BENCH/one_gpu.py attention linear moves
}
three() { # 6 minutes: who waits for whom in a step of rank 0 of 8: eager, compiled, captured
  go $BENCH/one_gpu.py step --models flux-1024 --plans ulysses=8 allgather=8
}
four() { # 7 minutes: one stream or two; what a rank of P computes; the error of bf16
  go $BENCH/one_gpu.py lanes
  go $BENCH/shadow_rank.py --models flux-1024 qwen-1328 \
    --plans ulysses=2 ulysses=4 ulysses=8 ring=4 allgather=2 allgather=8
}
five() { # 8 minutes: a long video
  go $BENCH/shadow_rank.py --models wan-720p-81f --plans ulysses=4 ulysses=8 allgather=8 --runs 1 --skip-errors
}
six() { # 6 minutes: a large picture, and every test that needs a GPU
  go $BENCH/shadow_rank.py --models flux-2048 --plans ulysses=4 ulysses=8 --skip-errors
  go -m pytest -q -m gpu tests/parallel/test_gpu.py tests/parallel/test_kernels.py tests/pipelines/test_gpu.py
}
go() { # what fails does not keep the rest from being tried
  "$PYTHON" "$@" || STATUS=1
}
paint() { # a picture by a rank that is forked for the device, into a folder of that name
  local name=$1
  shift
  time go -m latentloom run workflows/bobbin/first_picture.json --no-cache --out "$OUT/$name" "$@"
}
STATUS=0
case ${1:-} in
  wheels | setup | one | two | three | four | five | six) "$@" || STATUS=1 ;;
  *)
    echo "usage: bash tests/bench/one_gpu.sh wheels PYTHON | setup | one | two | three | four | five | six" >&2
    STATUS=2
    ;;
esac
exit "$STATUS"
