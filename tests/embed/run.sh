#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build into a prefix of its own, builds small foreign projects against it with only
# find_package(cpprun), and lets them talk to each other.
#   run.sh BUILD_DIRECTORY C_COMPILER CXX_COMPILER CPPRUN PYTHON
set -eu
build=$1 cc=$2 cxx=$3 cpprun=$4 python=$5
here=$(cd "$(dirname "$0")" && pwd)
work=$build/embed_test
rm -rf "$work"
mkdir -p "$work"
fail() { echo "$*"; exit 1; }
# expect WHAT WANTED GOT
expect() { [ "$2" = "$3" ] || fail "$1 said \"$3\" and not \"$2\""; }

cmake --install "$build" --prefix "$work/prefix" --component development >"$work/install.log"
"$here/headers.sh" "$work/prefix" "$cc" "$cxx"
for part in server client c env; do
  { cmake -G Ninja -S "$here/$part" -B "$work/$part" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" && cmake --build "$work/$part"; } \
    >"$work/$part.log" 2>&1 || { cat "$work/$part.log"; exit 1; }
done

# The server exits when its input ends, that is when this script exits for any reason.
mkfifo "$work/input" "$work/output"
"$work/server/embed_server" <"$work/input" >"$work/output" &
server=$!
exec 3>"$work/input"
read -r port <"$work/output"
expect "the first client" "hello, visitor 1" "$("$work/client/embed_client" "$port")"
expect "the second client" "hello, visitor 2" "$("$work/client/embed_client" "$port")"
exec 3>&-
wait "$server"

library=$work/prefix/lib/libcpprun_store.so
[ -e "$library" ] || library=$(find "$work/prefix" -name libcpprun_store.so)
# A wait for a key that is never set is the failure that both programs show.
late="wait for /greeting, /goodbye timed out"
expect "the program in C" "hello, visitor 1
$late" "$("$work/c/embed_c")"
if [ -n "$python" ]; then
  expect "the program in Python" "hello, visitor 1
$late" "$("$python" "$here/python/store.py" "$library")"
else
  echo "skipped: no python3, so ctypes was not tried"
fi

# The shared library exports only the C interface, and needs only the C library.
shown=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^CPPRUN_STORE_1$' |
  grep -v '^cpprun_store_[a-z_]*@@CPPRUN_STORE_1$' || true)
expect "libcpprun_store.so" "" "$shown"
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -v '^libc\.so\|^ld-' || true)
expect "libcpprun_store.so" "" "$needed"

OMP_NUM_THREADS=1 timeout 60 "$cpprun" --standalone \
  --nproc-per-node=2 --no-python "$work/env/embed_env" >"$work/env.output" 2>&1 ||
  { cat "$work/env.output"; exit 1; }
expect "the workers" "rank 0 of 2
rank 1 of 2" "$(sort "$work/env.output")"
echo "C, C++ and Python embedded the store; two workers met without LibTorch"
