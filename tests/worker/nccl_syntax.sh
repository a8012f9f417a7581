#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compiles the nccl backend's source without a GPU, a CUDA LibTorch or NCCL: only the syntax,
# against NCCL's own header, the CUDA toolkit's if it is installed, and declarations of what else
# LibTorch's headers need. Nothing is linked or run.
#   nccl_syntax.sh CXX_COMPILER SOURCE_DIRECTORY LIBTORCH_DIRECTORY WORK_DIRECTORY
# Looks for the headers in CPPRUN_NCCL_INCLUDE and CUDA_HOME, in the system, and in what an earlier
# run left in WORK_DIRECTORY; CPPRUN_FETCH_NCCL=1, which `./dev test` sets on a build machine, lets
# pip fetch them (350 MB, of which the headers are kept). Skips (77) without them.
set -eu
compiler=$1 source=$2 libtorch=$3 work=$4
skip() { echo "skipped: $*"; exit 77; }

# fetch PACKAGE PATTERN: extracts the matching files of the package's wheel into $work/include.
fetch() {
  [ "${CPPRUN_FETCH_NCCL:-0}" = 1 ] || return 1
  mkdir -p "$work/include"
  timeout 240 python3 -m pip download --quiet --disable-pip-version-check --no-deps \
    --dest "$work/wheel" "$1" || return 1
  python3 - "$work/wheel" "$2" "$work/include" <<'PYTHON'
import pathlib, shutil, sys, zipfile
wheels, pattern, target = sys.argv[1:]
for wheel in pathlib.Path(wheels).glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if pattern in name and not name.endswith("/"):
                out = pathlib.Path(target, name.split("/include/", 1)[1])
                out.parent.mkdir(parents=True, exist_ok=True)
                out.write_bytes(archive.read(name))
shutil.rmtree(wheels)
PYTHON
}

# find_header NAME DIRECTORY…: the first directory that has it.
find_header() {
  header=$1
  shift
  for directory in "$@"; do
    if [ -n "$directory" ] && [ -e "$directory/$header" ]; then echo "$directory"; return; fi
  done
}

cuda=$(find_header cuda_runtime.h "${CUDA_HOME:-/usr/local/cuda}/include" /usr/include \
  "$work/include")
if [ -z "$cuda" ]; then
  { fetch nvidia-cuda-runtime-cu12 /cuda_runtime/include/ &&
    fetch nvidia-cuda-nvcc-cu12 /cuda_nvcc/include/ &&
    fetch nvidia-cuda-cccl-cu12 /cuda_cccl/include/nv/; } ||
    skip "no CUDA headers (CUDA_HOME, or CPPRUN_FETCH_NCCL=1): nothing of nccl was compiled"
  cuda=$work/include
fi
nccl=$(find_header nccl.h "${CPPRUN_NCCL_INCLUDE:-}" "$cuda" /usr/include "$work/include")
if [ -z "$nccl" ]; then
  fetch nvidia-nccl-cu12 /nccl/include/nccl.h ||
    skip "no nccl.h (CPPRUN_NCCL_INCLUDE, or CPPRUN_FETCH_NCCL=1): nothing of nccl was compiled"
  nccl=$work/include
fi

"$compiler" -std=c++20 -fsyntax-only -Wall -Wextra \
  -DCPPRUN_WITH_NCCL -DUSE_C10D_NCCL -DUSE_DISTRIBUTED -I"$source" \
  -isystem "$nccl" -isystem "$cuda" \
  -isystem "$libtorch/include" -isystem "$libtorch/include/torch/csrc/api/include" \
  -isystem "$source/tests/worker/cuda_stubs" \
  "$source/worker/torch/group/nccl_backend.cpp"
echo "worker/torch/group/nccl_backend.cpp compiles against $nccl/nccl.h"
