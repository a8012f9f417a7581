#!/bin/sh
# Builds a foreign training program against the installed worker component, launches two ranks of it
# and compares what they learned.
#   run.sh BUILD_FOLDER CXX_COMPILER LIBTORCH_FOLDER CPPRUN
set -eu
build=$1 compiler=$2 libtorch=$3 cpprun=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$build/embed_worker_test
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" --component development >"$work/install.log"
cmake -G Ninja -S "$here" -B "$work/build" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$work/prefix;$libtorch" >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }

timeout 120 "$cpprun" --standalone --nproc-per-node=2 "$work/build/embed_worker" >"$work/output" ||
  { cat "$work/output"; exit 1; }
cat "$work/output"
# Each rank trained on other numbers, and all hold the same model: y = a + b.
[ "$(wc -l <"$work/output")" = 2 ]
[ "$(sort -u "$work/output")" = "learned 1" ]
