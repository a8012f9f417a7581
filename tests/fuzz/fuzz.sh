# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# `./dev fuzz`, which sources this: finds a clang with libFuzzer, builds, and lets it attack one
# target of targets.cpp.

# Sets `clang` to the newest installed compiler with libFuzzer; distributions differ in which have
# it.
find_fuzzing_clang() {
  local version runtime
  clang=""
  for version in 21 20 19 18 17 16 15 14; do
    command -v "clang++-$version" >/dev/null || continue
    runtime=$("clang++-$version" -print-file-name="libclang_rt.fuzzer-$(uname -m).a")
    [[ -e $runtime ]] || runtime=$("clang++-$version" -print-runtime-dir)/libclang_rt.fuzzer.a
    if [[ -e $runtime ]]; then clang="clang++-$version" && return 0; fi
  done
}

need_fuzzing_clang() {
  find_fuzzing_clang
  [[ -z $clang ]] || return 0
  local version
  for version in 19 18 17 16 15 14; do
    apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1 || continue
    need_packages "clang-$version" "libclang-rt-$version-dev"
    break
  done
  find_fuzzing_clang
  [[ -n $clang ]] || stop "no clang with libFuzzer here; install clang and libclang-rt-dev"
}

# Inputs that libFuzzer finds are kept in build/fuzz/found/NAME. An input that breaks a promise is
# written there as crash-…, and belongs in tests/fuzz/corpus/NAME once the bug is fixed.
fuzz_target() {
  setup
  need_fuzzing_clang
  say "Building"
  build_preset fuzz fuzz
  local name=${1:-} seconds=${2:-60} found="$PWD/build/fuzz/found/${1:-}"
  [[ -n $name ]] || { build/fuzz/tests/fuzz/fuzz || true; return 0; }
  mkdir -p "$found"
  find_without_aslr
  say "Fuzzing $name for $seconds s"
  CPPRUN_FUZZ=$name "${without_aslr[@]}" build/fuzz/tests/fuzz/fuzz -max_total_time="$seconds" \
    -timeout=10 -max_len=16384 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$found/" \
    "$found" "tests/fuzz/corpus/$name"
}
