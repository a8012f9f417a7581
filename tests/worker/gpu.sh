# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# `./dev gpu`, which sources this: tests that need a GPU, on a machine that may have no network.

# Headers that the sources include and a machine without Debian's packages lacks.
gpu_headers='^/usr/include/(x86_64-linux-gnu/)?(asio|nlohmann|CLI|doctest|fmt|tl|boost|openssl)[/.]'
gpu_headers+='|^/usr/include/(x86_64-linux-gnu/)?z(lib|conf)\.h$'
gpu_programs=(cpprun worker_gpu_test worker_group_test worker_torch_test speed resnet_cifar)

# Sources and header packages in one file, for a machine without a network. The headers are those
# that a build has read.
bundle_for_gpu() {
  build_preset release
  rm -rf dist/gpu
  mkdir -p dist/gpu/include dist/gpu/lib dist/gpu/share/cmake
  local header
  # CMake looks for asio.hpp, which no source includes whole.
  { echo /usr/include/asio.hpp && ninja -C build/release -t deps; } |
    awk '$1 ~ "^/usr/include/" { print $1 }' | sort -u | grep -E "$gpu_headers" |
    while read -r header; do
      install -D -m 644 "$header" \
        "dist/gpu/include/$(sed -E 's,^/usr/include/(x86_64-linux-gnu/)?,,' <<<"$header")"
    done
  cp "$(gcc -print-file-name=libz.a)" dist/gpu/lib/
  for header in nlohmann_json CLI11; do
    cp -r "$(find /usr/share /usr/lib -path "*cmake/$header" -type d | head -n 1)" \
      dist/gpu/share/cmake/
  done
  { git ls-files && find dist/gpu -type f; } |
    tar -czf dist/cpprun-gpu.tar.gz --transform 's,^,cpprun-gpu/,' -T -
  note "$(du -h dist/cpprun-gpu.tar.gz | cut -f1) dist/cpprun-gpu.tar.gz: unpack it on the" \
    "machine with the GPU, and run ./dev gpu there"
}

gpu() {
  if [[ ${1:-} == --bundle ]]; then
    setup
    bundle_for_gpu
    return
  fi
  torch_oldest=2.11
  [[ -d dist/gpu ]] || need_packages "${packages_build[@]}"
  find_libtorch
  [[ -n $libtorch ]] || stop "no python3 with torch $torch_oldest or newer here"
  command -v nvidia-smi >/dev/null || stop "no nvidia-smi here: is there an NVIDIA GPU?"
  say "Building with $libtorch"
  local begun=$SECONDS prefix=$libtorch log=build/configure_gpu.log
  [[ ! -d dist/gpu ]] || prefix="$PWD/dist/gpu;$prefix"
  mkdir -p build
  cmake --preset release -B build/gpu -DCPPRUN_WORKER=ON "-DCMAKE_PREFIX_PATH=$prefix" \
    >"$log" 2>&1 || { cat "$log" >&2 && return 1; }
  grep '^-- \(LibTorch\|gloo\|without\)' "$log"
  grep -q '^-- LibTorch .*(CUDA)' "$log" ||
    stop "$libtorch is built for the CPU: install a torch for CUDA (see $log)"
  cmake --build build/gpu -j "$(nproc)" --target "${gpu_programs[@]}"
  note "built in $((SECONDS - begun)) s on $(nproc) processors"
  "$python" tests/worker/gpu_check.py build/gpu "$@"
}
