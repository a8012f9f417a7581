#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Configures this project with every optional dependency broken: each is named in a line "without
# NAME: REASON", and the configuration succeeds without it.
#   optional_test.sh SOURCE_DIRECTORY CXX_COMPILER
set -eu
source=$1 cxx=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { cat "$work/log"; echo "optional_test: $*" >&2; exit 1; }
expect() { grep -q -- "-- without $1: .*$2" "$work/log" || fail "no line \"without $1: …$2…\""; }

# Programs that fail, and a LibTorch whose libraries are not libraries.
mkdir "$work/broken"
for program in ccache cc git mpicc mpicxx mpiexec mpirun pkg-config python3; do
  printf '#!/bin/sh\necho "%s is broken here" >&2\nexit 3\n' "$program" >"$work/broken/$program"
done
chmod +x "$work"/broken/*
mkdir -p "$work/torch/include/torch/csrc/api/include/torch" "$work/torch/lib"
cat >"$work/torch/include/torch/csrc/api/include/torch/version.h" <<'HEADER'
#define TORCH_VERSION_MAJOR 2
#define TORCH_VERSION_MINOR 13
#define TORCH_VERSION_PATCH 0
HEADER
for library in torch torch_cpu c10; do echo damaged >"$work/torch/lib/lib$library.so"; done

PATH="$work/broken:$PATH" cmake -S "$source" -B "$work/build" -G Ninja \
  "-DCMAKE_CXX_COMPILER=$cxx" "-DCMAKE_PREFIX_PATH=$work/torch" \
  "-DCPPRUN_PYTHON=$work/broken/python3" >"$work/log" 2>&1 || fail "with broken programs"
expect ccache "ccache is broken here"
expect worker/torch "$work/torch does not link"
expect "the tests in Python" "python3 is broken here"
expect "the tests with PyTorch" "python3 is broken here"
expect embed_test "cc is broken here"
if PATH="$work/broken:$PATH" cmake "$work/build" -DCPPRUN_WORKER=ON >"$work/log" 2>&1; then
  fail "CPPRUN_WORKER=ON is not an error where LibTorch does not work"
fi

# Parts that are configured only with a working LibTorch.
mkdir "$work/parts"
cat >"$work/parts/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(parts LANGUAGES CXX)
include(cpprun_optional)
include(cpprun_libtorch)
include(cpprun_mpi)
cpprun_find_libtorch()
cpprun_try_libtorch()
cpprun_without(libtorch "${CPPRUN_LIBTORCH_REASON}")
cpprun_find_mpi()
CMAKE
parts() {
  PATH="$work/broken:$PATH" cmake -S "$work/parts" -B "$work/parts/$1" -G Ninja \
    "-DCMAKE_CXX_COMPILER=$cxx" "-DCMAKE_MODULE_PATH=$source/cmake" \
    "-DCMAKE_PREFIX_PATH=$work/torch" >"$work/log" 2>&1 || fail "$1"
  # This machine may have an MPI that works.
  grep -q "backend mpi: " "$work/log" || fail "$1: no line about MPI"
}
# Libraries that need a missing library.
echo "int unused;" >"$work/unused.cpp"
"$cxx" -shared -fPIC -o "$work/torch/lib/libgone.so" "$work/unused.cpp"
for library in torch torch_cpu c10; do
  "$cxx" -shared -fPIC -o "$work/torch/lib/lib$library.so" "$work/unused.cpp" \
    -Wl,--no-as-needed "-L$work/torch/lib" -lgone "-Wl,-rpath,$work/torch/lib"
done
parts "an MPI whose compiler fails"
expect libtorch ""
mv "$work/torch/lib/libgone.so" "$work/torch/lib/gone"
# As Debian's openmpi-bin without libopenmpi-dev: it names directories that do not exist.
cat >"$work/broken/mpicxx" <<'MPICXX'
#!/bin/sh
case $1 in -*show*) echo "-I/nowhere/openmpi/include -L/nowhere/openmpi/lib -lmpi" ;; esac
MPICXX
parts "an MPI without headers"
expect libtorch "does not load .*libgone.so"
echo "configured with a line each: without ccache, LibTorch, MPI, Python, a C compiler"
