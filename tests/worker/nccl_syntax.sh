#!/bin/sh
# Compiles the nccl backend's source where there is no GPU, no CUDA LibTorch and no NCCL: the syntax
# alone, against NCCL's own header, the CUDA toolkit's where it is installed, and declarations of
# what LibTorch's headers want besides. Nothing is linked or run.
#   nccl_syntax.sh CXX_COMPILER SOURCE_FOLDER LIBTORCH_FOLDER WORK_FOLDER
# NCCL's header is looked for in CPPRUN_NCCL_INCLUDE, in the system, and in what an earlier run left
# in WORK_FOLDER; CPPRUN_FETCH_NCCL=1 lets pip fetch it (350 MB, of which one file is kept). Skipped
# (77) without it.
set -eu
compiler=$1 source=$2 libtorch=$3 work=$4
skip() { echo "skipped: $*"; exit 77; }

cuda=""
for folder in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include; do
  if [ -e "$folder/cuda_runtime.h" ]; then cuda=$folder; break; fi
done
[ -n "$cuda" ] ||
  skip "no CUDA toolkit's headers (set CUDA_HOME): the nccl backend was not compiled"

nccl=""
for folder in "${CPPRUN_NCCL_INCLUDE:-}" "$cuda" /usr/include "$work/include"; do
  if [ -n "$folder" ] && [ -e "$folder/nccl.h" ]; then nccl=$folder; break; fi
done
if [ -z "$nccl" ] && [ "${CPPRUN_FETCH_NCCL:-0}" = 1 ]; then
  mkdir -p "$work/include"
  timeout 240 python3 -m pip download --quiet --no-deps --dest "$work" nvidia-nccl-cu12 &&
    python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, open(sys.argv[2], "wb") as out:
    out.write(wheel.read("nvidia/nccl/include/nccl.h"))' \
      "$work"/nvidia_nccl_cu12-*.whl "$work/include/nccl.h" && nccl=$work/include
  rm -f "$work"/nvidia_nccl_cu12-*.whl
fi
[ -n "$nccl" ] ||
  skip "no nccl.h (CPPRUN_NCCL_INCLUDE, or CPPRUN_FETCH_NCCL=1): nothing of nccl was compiled"

"$compiler" -std=c++20 -fsyntax-only -Wall -Wextra \
  -DCPPRUN_WITH_NCCL -DUSE_C10D_NCCL -DUSE_DISTRIBUTED -I"$source" \
  -isystem "$nccl" -isystem "$cuda" \
  -isystem "$libtorch/include" -isystem "$libtorch/include/torch/csrc/api/include" \
  -isystem "$source/tests/worker/cuda_stubs" \
  "$source/worker/torch/nccl_backend.cpp"
echo "worker/torch/nccl_backend.cpp compiles against $nccl/nccl.h"
