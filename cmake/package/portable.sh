# SPDX-License-Identifier: BSD-3-Clause
# Builds the three programs for other machines: an older C library, no C library, another
# architecture. zig has the compiler, the C libraries and the C++ library for all of them.
# Sourced by package.sh, from the repository's root.

# Exact versions: another zig has another clang, with other warnings and other output.
zig_wanted=0.17.1
tools_wanted=("ziglang==$zig_wanted" scikit-build-core==1.1.2 wheel==0.48.0)
glibc_wanted=2.17  # of 2012; manylinux2014's

# Sets `zig`, and `package_python`, a Python of a separate environment with the tools for wheels.
need_tools() {
  package_python=$PWD/.venv-package/bin/python
  if ! has_tools; then
    say "Fetching zig $zig_wanted (100 MB) and scikit-build-core into .venv-package"
    { python3 -m venv .venv-package && "$package_python" -m pip install \
      --disable-pip-version-check "${tools_wanted[@]}"; } </dev/null && has_tools ||
      stop "cannot install ${tools_wanted[*]} with pip"
  fi
  zig=$(echo "$PWD"/.venv-package/lib/python3*/site-packages/ziglang/zig)
  export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$PWD/.venv-package/cache}
}

has_tools() {
  "$package_python" - "${tools_wanted[@]}" 2>/dev/null <<'PYTHON'
import importlib.metadata, sys
for wanted in sys.argv[1:]:
    name, version = wanted.split("==")
    if importlib.metadata.version(name) != version:
        sys.exit(1)
PYTHON
}

# build_showing LOG DIRECTORY [CMAKE-ARGUMENT…]: runs cmake --build, shows its progress, and writes
# the output to LOG.
build_showing() {
  local log=$1 directory=$2
  shift 2
  cmake --build "$directory" -j "$(jobs_here)" "$@" 2>&1 | show_progress "$log"
}

# On a terminal: one line that changes. Otherwise: one line for each 10 %.
show_progress() {
  local line built all shown=0
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$1"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    built=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
    if [[ -t 1 ]]; then
      printf '\r  %d of %d steps ' "$built" "$all"
      [[ $built -ne $all ]] || printf '\n'
    elif ((built * 10 / all > shown)); then
      shown=$((built * 10 / all))
      printf '  %d of %d steps\n' "$built" "$all"
    fi
  done
}

# Creates the tools under the names that CMake uses, and a directory with the libraries' headers but
# not this machine's own.
lay_out_zig() {
  local tools=$1 headers=$2 name library
  mkdir -p "$tools"
  for name in c++ ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$name" >"$tools/$name"
    chmod +x "$tools/$name"
  done
  rm -rf "$headers"
  mkdir -p "$headers/usr/include/openssl" "$headers/usr/share"
  for library in fmt tl CLI asio asio.hpp nlohmann boost; do
    ln -s "/usr/include/$library" "$headers/usr/include/$library"
  done
  # Debian has two OpenSSL headers in an architecture's directory; they are the same for all.
  ln -s /usr/include/openssl/*.h /usr/include/*-linux-gnu/openssl/*.h \
    "$headers/usr/include/openssl/"
  cp -r /usr/share/cmake "$headers/usr/share/cmake"
}

# build_portable TARGET DIRECTORY [CMAKE-ARGUMENT…]: builds the three programs and their pages for
# one zig target, in DIRECTORY/programs.
build_portable() {
  local target=$1 directory=$2
  shift 2
  lay_out_zig "$PWD/build/package/zig" "$PWD/build/package/headers"
  # --fresh: discards a cache from an older toolchain file or from scikit-build-core.
  cmake -S . -B "$directory" --fresh -G Ninja -DCMAKE_BUILD_TYPE=Release -DCPPRUN_TESTS=OFF \
    -DCPPRUN_WORKER=OFF "-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/package/zig_toolchain.cmake" \
    "-DCPPRUN_ZIG_TARGET=$target" "-DCPPRUN_ZIG_TOOLS=$PWD/build/package/zig" \
    "-DCPPRUN_ZIG_HEADERS=$PWD/build/package/headers" \
    -DCMAKE_INSTALL_PREFIX=/usr "$@" >"$directory.log" 2>&1 &&
    CCACHE_COMPILERCHECK="string:zig $zig_wanted" build_showing "$directory.log" "$directory" \
      --target cpprun cpprund cpprunctl cpprun_printed_files ||
    { tail -n 40 "$directory.log" >&2 && stop "the programs for $target do not build"; }
  mkdir -p "$directory/programs"
  cp "$directory"/launcher/{cpprun,cpprunctl} "$directory/rendezvous/cpprund" "$directory/programs/"
}
