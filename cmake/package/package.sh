# SPDX-License-Identifier: BSD-3-Clause
# ./dev package: builds the packages in dist/. Sourced by dev, from the repository's root.
#   wheel, .deb, .tar.gz   programs for glibc 2.17 and later; they open OpenSSL for a secret
#   -static.tar.gz         programs that need nothing at all (musl), and cannot open OpenSSL
#   libcpprun-….tar.gz     the libraries and headers for find_package(cpprun), by this g++
# Also a bill of materials (CycloneDX) and SHA256SUMS. The same commit gives the same bytes.
source cmake/package/portable.sh

# With it, ccache changes paths before compiling, and so the file names in assertions.
unset CCACHE_BASEDIR

package() {
  case ${1:-} in
    --check)
      source tests/package/check.sh
      shift
      check_packages "$@"
      ;;
    --wheel) make_wheel_alone ;;
    "" | x86_64 | aarch64) make_packages "$@" ;;
    *) stop "package takes x86_64 or aarch64 (both without one), --wheel or --check, not \"$1\"" ;;
  esac
}

# Sets `version`, and the time stamp of all files in the packages.
settle_version() {
  version=$(sed -n 's/^project(cpprun VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  [[ -n $version ]] || stop "CMakeLists.txt names no version"
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
  export SOURCE_DATE_EPOCH
}

make_packages() {
  need_packages "${packages_build[@]}" "${packages_package[@]}"
  need_tools
  settle_version
  local machine machines=("$@")
  # The programs for this machine come first, because they print the pages of the others.
  [[ $# -gt 0 ]] || rm -rf dist
  mkdir -p dist build/package
  [[ $# -gt 0 ]] ||
    mapfile -t machines < <(printf '%s\n' "$(uname -m)" x86_64 aarch64 | awk '!seen[$0]++')
  for machine in "${machines[@]}"; do
    say "Packages for $machine"
    build_machine "$machine"
    make_tar "$machine-gnu" "cpprun-$version-linux-$machine"
    make_tar "$machine-musl" "cpprun-$version-linux-$machine-static"
    make_deb "$machine"
    make_wheel "$machine"
  done
  make_cmake_package
  close_dist
}

# The wheel for this machine's architecture, which a build machine builds and installs.
make_wheel_alone() {
  local machine
  machine=$(uname -m)
  need_packages "${packages_build[@]}" "${packages_package[@]}"
  need_tools
  settle_version
  rm -rf dist
  mkdir -p dist build/package
  say "The wheel for $machine"
  build_portable "$machine-linux-gnu.$glibc_wanted" "build/package/$machine-gnu"
  make_wheel "$machine"
  close_dist
}

# Both C libraries of one architecture.
build_machine() {
  local machine=$1 own pages=()
  own="$PWD/build/package/$(uname -m)-gnu/programs"
  if [[ $machine != "$(uname -m)" ]]; then
    [[ -x $own/cpprun ]] || stop "package $(uname -m) comes before $machine: it prints the pages"
    pages=("-DCPPRUN_PRINTED_BY=$own")
  fi
  build_portable "$machine-linux-gnu.$glibc_wanted" "build/package/$machine-gnu" "${pages[@]}"
  build_portable "$machine-linux-musl" "build/package/$machine-musl" "${pages[@]}"
}

# Sets the time of all files in a directory to the time of the commit.
settle_times() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

# tarball BUILD COMPONENT NAME: packs what that build installs, in a directory of this name.
tarball() {
  local root
  root=$(mktemp -d)
  cmake --install "$1" --component "$2" --prefix "$root/$3" >/dev/null
  chmod -R u=rwX,go=rX "$root"
  settle_times "$root"
  tar -C "$root" --sort=name --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$3" |
    gzip -9n >"dist/$3.tar.gz"
  rm -r "$root"
}

make_tar() { tarball "build/package/$1" Unspecified "$2"; }

# SOURCE_DATE_EPOCH gives all files the same times, so CPack always writes the same bytes.
make_deb() {
  local directory="build/package/$1-gnu" debian
  debian=$([[ $1 == aarch64 ]] && echo arm64 || echo amd64)
  CPPRUN_VERSION=$version CPPRUN_DEBIAN=$debian CPPRUN_BUILD="$PWD/$directory" \
    cpack --config cmake/package/deb.cmake -B "$directory/cpack" >"$directory/cpack.log" ||
    stop "CPack failed: $directory/cpack.log"
  mv "$directory/cpack/cpprun_${version}_$debian.deb" dist/
}

# scikit-build-core installs the output of build_portable, with the tag of this machine.
make_wheel() {
  local tags="manylinux_${glibc_wanted/./_}_$1" directory="build/package/$1-gnu" made
  rm -rf "$directory/wheel" dist/cpprun-"$version"-py3-none-*"_$1.whl"
  "$package_python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --wheel-dir "$directory/wheel" --config-settings "build-dir=$directory" . \
    >"$directory/wheel.log" 2>&1 || { cat "$directory/wheel.log" >&2 && stop "the wheel fails"; }
  made=$("$package_python" -m wheel tags --platform-tag "manylinux2014_$1.$tags" \
    "$directory"/wheel/*.whl)
  mv "$directory/wheel/$made" dist/
}

# C++ static libraries work with one C++ library only: these are for this machine's g++.
make_cmake_package() {
  local directory=build/package/cmake
  say "The CMake package"
  cmake -S . -B "$directory" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCPPRUN_TESTS=OFF \
    -DCPPRUN_WORKER=OFF -DCMAKE_INSTALL_LIBDIR=lib \
    "-DCMAKE_CXX_FLAGS=-ffile-prefix-map=$PWD=." >"$directory.log" 2>&1 &&
    build_showing "$directory.log" "$directory" \
      --target cpprun_store_static cpprun_store_shared cpprun_job_shared cpprun_env ||
    { tail -n 40 "$directory.log" >&2 && stop "the libraries do not build: $directory.log"; }
  tarball "$directory" development "libcpprun-$version-linux-$(uname -m)"
}

# The bill of materials and the checksums cover all files that exist now.
close_dist() {
  python3 cmake/package/sbom.py "$version" "$zig_wanted" dist >"dist/cpprun-$version.cdx.json"
  (cd dist && rm -f SHA256SUMS && sha256sum -- * >../build/package/sums)
  mv build/package/sums dist/SHA256SUMS
  say "In dist/"
  (cd dist && du -b -- * | awk '{ printf "%9d  %s\n", $1, $2 }')
}
