#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds a foreign training program against the installed worker component, launches two ranks of it
# and compares what they learned. Another LibTorch is rejected while configuring. Then the two
# programs of docs/cpp-from-libtorch.md: one process, and two ranks.
#   run.sh BUILD_DIRECTORY CXX_COMPILER LIBTORCH_DIRECTORY LIBTORCH_VERSION CPPRUN
set -eu
build=$1 compiler=$2 libtorch=$3 version=$4 cpprun=$5
here=$(cd "$(dirname "$0")" && pwd)
work=$build/embed_worker_test
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" --component development >"$work/install.log"
# configure DIRECTORY LIBTORCH [PROJECT]
configure() {
  cmake -G Ninja -S "$here/../${3:-worker}" -B "$work/$1" -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$work/prefix;$2" >"$work/$1.log" 2>&1
}

# A LibTorch directory with nothing but the version is enough to be rejected.
other=$work/other_libtorch
header=torch/csrc/api/include/torch/version.h
mkdir -p "$other/include/$(dirname "$header")" "$other/lib"
printf '#define TORCH_VERSION_%s\n' 'MAJOR 1' 'MINOR 99' 'PATCH 7' >"$other/include/$header"
if configure refused "$other"; then echo "LibTorch 1.99.7 was taken"; exit 1; fi
# CMake breaks its lines.
said=$(tr -s ' \n' '  ' <"$work/refused.log")
case $said in
  *"built with LibTorch $version, and LibTorch 1.99.7 is in $other"*) ;;
  *) echo "the refusal does not name both versions: $said"; exit 1 ;;
esac

configure build "$libtorch" || { cat "$work/build.log"; exit 1; }
cmake --build "$work/build" >"$work/build.log" 2>&1 || { cat "$work/build.log"; exit 1; }
timeout 120 "$cpprun" --standalone --nproc-per-node=2 "$work/build/embed_worker" >"$work/output" ||
  { cat "$work/output"; exit 1; }
cat "$work/output"
# Each rank trained on other numbers, and all have the same model: y = a + b.
[ "$(wc -l <"$work/output")" = 2 ]
[ "$(sort -u "$work/output")" = "learned 1" ]

# A plugin that holds the archive of the store, and hides it, in a program that has loaded LibTorch,
# whose {fmt} is another one.
cat >"$work/plugin.cpp" <<'END'
#include <cpprun/store_client.h>
#include <cpprun/store_server.h>

extern "C" __attribute__((visibility("default"))) int run_plugin() {
  const auto server = cpprun::StoreServer::open({});
  if (!server) return 1;
  auto client = cpprun::StoreClient::open({"127.0.0.1", server->port()});
  return client && client->set("a", "b") && client->get("a").value() == "b" ? 7 : 1;
}
END
cat >"$work/host.cpp" <<'END'
#include <dlfcn.h>

int main(int, char** words) {
  if (dlopen(words[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) return 2;
  void* const plugin = dlopen(words[2], RTLD_NOW);
  if (plugin == nullptr) return 3;
  return reinterpret_cast<int (*)()>(dlsym(plugin, "run_plugin"))();
}
END
archive=$(find "$work/prefix" -name libcpprun_store.a)
"$compiler" -std=c++17 -shared -fPIC -fvisibility=hidden "$work/plugin.cpp" \
  -I"$work/prefix/include" "$archive" -pthread -o "$work/plugin.so"
"$compiler" "$work/host.cpp" -ldl -o "$work/host"
code=0
"$work/host" "$libtorch/lib/libtorch_cpu.so" "$work/plugin.so" || code=$?
[ $code = 7 ] || { echo "the plugin beside LibTorch ended with $code"; exit 1; }

configure spirals "$libtorch" from_libtorch || { cat "$work/spirals.log"; exit 1; }
cmake --build "$work/spirals" >"$work/spirals.log" 2>&1 || { cat "$work/spirals.log"; exit 1; }
mkdir "$work/one" "$work/two"
(cd "$work/one" && OMP_NUM_THREADS=1 timeout 120 "$work/spirals/single") >"$work/one/output"
(cd "$work/two" && timeout 120 "$cpprun" --standalone --nproc-per-node=2 --no-python \
  "$work/spirals/distributed") >"$work/two/output"
# Both learn the spirals, print each epoch once, and save the model.
for run in one two; do
  tail -n 1 "$work/$run/output"
  [ "$(grep -c '^epoch ' "$work/$run/output")" = 30 ]
  awk 'END { exit !($3 > 95) }' "$work/$run/output"
  [ -s "$work/$run/spirals.pt" ]
done
