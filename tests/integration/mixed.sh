# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# `./dev test --mixed[=COMMIT]`, which sources this: the programs of another commit beside ours.

# The commit of a tag or a name; by default the last release, or the last build with the formats
# that this one still has to read.
test_mixed() {
  local name=${1:-$(git describe --tags --abbrev=0 2>/dev/null || echo 090b1b0)}
  local commit directory
  commit=$(git rev-parse --verify --quiet --short "$name^{commit}") ||
    stop "--mixed=$name: no such commit here"
  directory="$PWD/build/mixed-$commit"
  setup
  suites_failed=0
  tally=$(mktemp)
  trap 'rm -f "$tally"' EXIT
  phase "build: $commit"
  say "Building cpprun and cpprund of $name in $directory"
  if build_old "$commit" "$directory" && build_for_suite release integration_test; then
    CPPRUN_OLD_BUILD=$directory suite "mixed with $commit" release \
      -R '^integration_mixed_versions_test$'
  else
    suites_failed=1
  fi
  summary
}

# build_old COMMIT DIRECTORY: a clone of the commit in DIRECTORY/source, built in DIRECTORY.
build_old() {
  local source="$2/source"
  if [[ ! -e $source/.git ]]; then
    rm -rf "$2"
    git clone --quiet --shared --no-checkout . "$source"
  fi
  git -C "$source" checkout --quiet --detach "$1" || return 1
  CCACHE_BASEDIR=$source cmake -S "$source" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCPPRUN_WORKER=OFF >"$2/configure.log" 2>&1 || { cat "$2/configure.log" >&2 && return 1; }
  CCACHE_BASEDIR=$source cmake --build "$2" -j "$(jobs_here)" --target cpprun cpprund
}
