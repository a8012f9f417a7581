#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build into a prefix of its own, builds small foreign projects against it with only
# find_package(cpprun), and lets them talk to each other.
#   run.sh BUILD_DIRECTORY C_COMPILER CXX_COMPILER CPPRUN PYTHON SOURCE_DIRECTORY
set -eu
build=$1 cc=$2 cxx=$3 cpprun=$4 python=$5 source=$6
here=$(cd "$(dirname "$0")" && pwd)
work=$build/embed_test
rm -rf "$work"
mkdir -p "$work"
fail() { echo "$*"; exit 1; }
# expect WHAT WANTED GOT
expect() { [ "$2" = "$3" ] || fail "$1 said \"$3\" and not \"$2\""; }

cmake --install "$build" --prefix "$work/prefix" --component development >"$work/install.log"
"$here/headers.sh" "$work/prefix" "$cc" "$cxx"
parts="server client local c env job"
if echo '#include <asio.hpp>' | "$cxx" -std=c++20 -E -x c++ - >/dev/null 2>&1; then
  parts="$parts asio"
else
  echo "skipped: no Asio, so its adapter was not tried"
fi
for part in $parts; do
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

expect "the program with a store of its own" "status/loading is done
1 keys" "$("$work/local/embed_local")"

[ ! -x "$work/asio/embed_asio" ] ||
  expect "the program with coroutines" "hello, visitor 1" "$("$work/asio/embed_asio")"

library=$work/prefix/lib/libcpprun_store.so
[ -e "$library" ] || library=$(find "$work/prefix" -name libcpprun_store.so)
archive=${library%.so}.a
# A wait for a key that is never set is the failure that both programs show.
late="wait for /greeting, /goodbye timed out"
expect "the program in C" "hello, visitor 1
$late" "$("$work/c/embed_c")"
# Without CMake: the shared library, and the archive.
"$cc" "$here/c/main.c" -I"$work/prefix/include" -L"$(dirname "$library")" -lcpprun_store \
  -Wl,-rpath,"$(dirname "$library")" -o "$work/plain"
"$cc" -c "$here/c/main.c" -I"$work/prefix/include" -o "$work/plain.o"
"$cxx" "$work/plain.o" "$archive" -pthread -o "$work/plain_static"
for program in plain plain_static; do
  expect "the program $program" "hello, visitor 1
$late" "$("$work/$program")"
done
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH="$(dirname "$library")/pkgconfig"
  # shellcheck disable=SC2046 # several words
  "$cc" "$here/c/main.c" $(pkg-config --cflags --libs cpprun_store) \
    -Wl,-rpath,"$(dirname "$library")" -o "$work/pkg_config"
  expect "the program built with pkg-config" "hello, visitor 1
$late" "$("$work/pkg_config")"
else
  echo "skipped: no pkg-config"
fi
# With another C++ library than ours: the headers share no C++ type with the store.
echo 'int main() {}' >"$work/empty.cpp"
if clang++ -stdlib=libc++ "$work/empty.cpp" -o "$work/empty" >/dev/null 2>&1; then
  clang++ -stdlib=libc++ -std=c++17 -Wall -Wextra -Werror "$here/local/main.cpp" \
    -I"$work/prefix/include" -L"$(dirname "$library")" -lcpprun_store -pthread \
    -Wl,-rpath,"$(dirname "$library")" -o "$work/libcxx"
  expect "the program with libc++" "status/loading is done
1 keys" "$("$work/libcxx")"
else
  echo "skipped: no clang with libc++"
fi
if [ -n "$python" ]; then
  expect "the program in Python" "hello, visitor 1
$late" "$("$python" "$here/python/store.py" "$library")"
else
  echo "skipped: no python3, so ctypes was not tried"
fi

if rustc --version >/dev/null 2>&1; then
  rustc -O "$here/rust/main.rs" -L "$(dirname "$library")" -l dylib=cpprun_store \
    -C link-arg=-Wl,-rpath,"$(dirname "$library")" -o "$work/rust"
  expect "the program in Rust" "hello, visitor 1
$late" "$("$work/rust")"
else
  echo "skipped: no working rustc, so the program in Rust was not tried"
fi
if go version >/dev/null 2>&1; then
  (cd "$here/go" && CGO_ENABLED=1 GO111MODULE=off GOCACHE="$work/go_cache" CC="$cc" \
    CGO_CFLAGS="-I$work/prefix/include" \
    CGO_LDFLAGS="-L$(dirname "$library") -lcpprun_store -Wl,-rpath,$(dirname "$library")" \
    go build -o "$work/go" main.go)
  expect "the program in Go" "hello, visitor 1
$late" "$("$work/go")"
else
  echo "skipped: no working go, so the program in Go was not tried"
fi

# A rendezvous and a job of two workers in one program. It finds cpprun on PATH.
PATH=$(dirname "$cpprun"):$PATH "$work/job/embed_job" --no-python sh -c 'exit $RANK' \
  >"$work/job.output" 2>"$work/job.errors" && fail "the failed job ended with exit code 0"
for line in "round_sealed" "worker_exited rank 0 exit code 0" "worker_exited rank 1 exit code 1" \
  "job_ended rank 1 exit code 1 (silent_exit)"; do
  grep -q "^$line" "$work/job.output" ||
    fail "no \"$line\" in $(cat "$work/job.output" "$work/job.errors")"
done

# The shared libraries export only the C interfaces, and need only the C library.
for each in store job; do
  shared=$(dirname "$library")/libcpprun_$each.so
  version=CPPRUN_$(echo $each | tr a-z A-Z)_1
  shown=$(nm -D --defined-only "$shared" | awk '{ print $3 }' | grep -v "^$version$" |
    grep -v "^cpprun_[a-z_]*@@$version$" || true)
  expect "$shared" "" "$shown"
  needed=$(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -v '^lib[cm]\.so\|^ld-' || true)
  expect "$shared" "" "$needed"
done

# The archive shows nothing else either, so that a program may have its own {fmt}.
shown=$(nm -g --defined-only "$archive" |
  awk 'NF == 3 && $3 !~ /^cpprun_store_[a-z_]*$/ { print $3 }')
expect "libcpprun_store.a" "" "$shown"
"$here/abi.sh" cpprun_store "$work/prefix/include/cpprun/store.h" "$library" \
  "$source/rendezvous/embed/io/c_store.map" "$cc" "$work"
"$here/abi.sh" cpprun_job "$work/prefix/include/cpprun/job.h" \
  "$(dirname "$library")/libcpprun_job.so" "$source/launcher/embed/io/job.map" "$cc" "$work"

# As a part of another project, only the store is built, without any other library.
{ cmake -G Ninja -S "$here/subproject" -B "$work/subproject" -DCPPRUN_SOURCE="$source" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON \
  -DCPPRUN_OPENSSL_INCLUDE= &&
  cmake --build "$work/subproject"; } >"$work/subproject.log" 2>&1 ||
  { cat "$work/subproject.log"; exit 1; }
expect "the project with the sources" "status/loading is done
1 keys" "$("$work/subproject/embed_local")"
# It has no TLS then, and says so.
cat >"$work/secret.cpp" <<'END'
#include <cpprun/store_server.h>

int main() {
  cpprun::StoreServerOptions options;
  options.secret = "cpprun1:one:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  const auto server = cpprun::StoreServer::open(options);
  std::printf("%d: %s\n", server.code(), server.error().c_str());
}
END
"$cxx" -std=c++17 "$work/secret.cpp" -I"$work/prefix/include" \
  "$work/subproject/cpprun/rendezvous/embed/libcpprun_store.a" -pthread -o "$work/secret"
expect "the store without OpenSSL" \
  "13: a secret needs OpenSSL, without which this library was built" "$("$work/secret")"

OMP_NUM_THREADS=1 timeout 60 "$cpprun" --standalone \
  --nproc-per-node=2 --no-python "$work/env/embed_env" >"$work/env.output" 2>&1 ||
  { cat "$work/env.output"; exit 1; }
expect "the workers" "rank 0 of 2
rank 1 of 2" "$(sort "$work/env.output")"
echo "C, C++ and Python embedded the store; two workers met without LibTorch"
