# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# `./dev test --torch=/path`, which sources this: worker/torch with any LibTorch.

# Builds and runs all of worker/torch with one LibTorch, beside a build with another.
test_with_torch() {
  local torch=$1 directory
  need_to_be_libtorch "$torch"
  torch=$(cd "$torch" && pwd)
  need_packages "${packages_build[@]}" "${packages_run[@]}"
  # pip's torch is in an environment whose Python imports it.
  local python="$torch/../../../../bin/python"
  local arguments=(-DCPPRUN_WORKER=ON "-DCMAKE_PREFIX_PATH=$torch")
  if [[ -x $python ]]; then
    python=$(cd "$(dirname "$python")" && pwd)/python
    export CPPRUN_PYTHON=$python
    arguments+=("-DCPPRUN_PYTHON=$python")
  fi
  # 2.14.1+cu130; the zip without a Python package has it in another file.
  directory=torch-$(sed -n "s/^__version__ = '\(.*\)'$/\1/p" "$torch/version.py" 2>/dev/null ||
    cat "$torch/build-version" 2>/dev/null)
  find_without_aslr
  suites_failed=0
  tally=$(mktemp)
  trap 'rm -f "$tally"' EXIT
  say "Building with $torch"
  mkdir -p build
  local log="build/configure_$directory.log"
  if cmake --preset release -B "build/$directory" "${arguments[@]}" >"$log" 2>&1 &&
    grep '^-- \(LibTorch\|gloo\|without\)' "$log" &&
    cmake --build "build/$directory" -j "$(jobs_here)"; then
    suite "$directory" "$directory" -L torch
  else
    cat "$log" >&2
    note "not-built $directory" >>"$tally"
  fi
  summary
}
