#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One version number, from CMakeLists.txt: the output of the programs and the CMake package, and the
# commit beside it, which comes from git, from a tarball, or is missing.
#   version_test.sh BUILD_DIRECTORY SOURCE_DIRECTORY
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "version_test: $*" >&2; exit 1; }

number=$(sed -n 's/^project(cpprun VERSION \([0-9.]*\) .*/\1/p' "$source/CMakeLists.txt")
[ -n "$number" ] || fail "CMakeLists.txt has no project(cpprun VERSION …)"

# The output of the programs and the package.
for program in launcher/cpprun launcher/cpprunctl rendezvous/cpprund; do
  said=$("$build/$program" --version) || fail "$program --version ended with $?"
  echo "$said" | grep -Eqx "${program#*/} $number \(commit ([0-9a-f]{12,}(-dirty)?|unknown)\)" ||
    fail "$program --version says: $said"
done
ours=$("$build/launcher/cpprun" --version)
theirs=$("$build/rendezvous/cpprund" --version)
[ "${ours#cpprun}" = "${theirs#cpprund}" ] || fail "the programs differ: $ours; $theirs"
grep -Fq "set(PACKAGE_VERSION \"$number\")" "$build/cpprunConfigVersion.cmake" ||
  fail "the CMake package is not $number"

# The commit that write_version.cmake finds in DIRECTORY, as version.cpp has it.
commit_in() {
  cmake "-DSOURCE=$1" -DVERSION=7.8.9 "-DOUTPUT=$work/version.cpp" \
    -P "$1/cmake/write_version.cmake" || fail "write_version.cmake failed in $1"
  sed -n 's/.*7\.8\.9 (commit \(.*\))".*/\1/p' "$work/version.cpp"
}
expect() { [ "$1" = "$2" ] || fail "$3: \"$1\" instead of \"$2\""; }

mkdir -p "$work/tree/cmake"
cp "$source/cmake/write_version.cmake" "$source/cmake/version.cpp.in" "$source/cmake/commit.txt" \
  "$work/tree/cmake"
cp "$source/.gitattributes" "$work/tree"
expect "$(commit_in "$work/tree")" unknown "outside git"

if ! command -v git >/dev/null; then
  echo "skipped: no git: what a clone and a tarball say was not looked at"
  exit 77
fi
# Ignores the user's configuration and repositories above.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_CEILING_DIRECTORIES="$work"
git_in() { git -C "$work/tree" -c user.name=n -c user.email=e "$@"; }
git_in init -q
git_in add -A
git_in commit -q -m one
one=$(git_in rev-parse --short=12 HEAD)
expect "$(commit_in "$work/tree")" "$one" "in a clone"
touch -d '2001-01-01' "$work/version.cpp"
commit_in "$work/tree" >/dev/null
[ "$(date -r "$work/version.cpp" +%Y)" = 2001 ] || fail "an unchanged version was written again"
echo >>"$work/tree/cmake/version.cpp.in"
expect "$(commit_in "$work/tree")" "$one-dirty" "in a changed clone"
git_in commit -q -a -m two
two=$(git_in rev-parse --short=12 HEAD)
expect "$(commit_in "$work/tree")" "$two" "after a commit"

# A tarball, unpacked inside another repository.
mkdir "$work/tree/unpacked"
git_in archive HEAD | tar -x -C "$work/tree/unpacked"
expect "$(commit_in "$work/tree/unpacked")" "$two" "in a tarball inside a repository"
echo "$ours"
