#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares the C interface of a library with tests/embed/NAME.abi, a dump of an earlier one:
# functions, and members at the end of structs with a size, may be added; nothing else may change.
#   abi.sh NAME HEADER LIBRARY VERSION_SCRIPT C_COMPILER WORK_DIRECTORY
# After additions, copy WORK_DIRECTORY/NAME.abi to tests/embed.
set -eu
name=$1 header=$2 library=$3 map=$4 cc=$5 work=$6
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(uname -m)" != x86_64 ]; then
  echo "skipped: the stored dump of the binary interface is that of x86_64"
  exit 0
fi
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  echo "skipped: no abidiff (Debian: abigail-tools), so the binary interface was not compared"
  exit 0
fi
symbols() { nm -D --defined-only "$1" | sed -n 's/.* \(cpprun_[a-z_]*\).*/\1/p' | sort; }
# A library with the functions of the header and nothing else: the types behind its pointers are
# not part of the interface.
"$cc" -E -P -include "$header" -x c /dev/null | awk '
  BEGIN { RS = ";" }
  /visibility\("default"\)/ && /\)$/ { print $0 " { __builtin_trap(); }"; next }
  NF { print $0 ";" }' >"$work/abi.c"
"$cc" -g -fPIC -shared "$work/abi.c" -o "$work/abi.so" \
  -Wl,--version-script="$map" "-Wl,-soname,lib$name.so.1"
if [ "$(symbols "$work/abi.so")" != "$(symbols "$library")" ]; then
  echo "the library has other functions than its header"
  exit 1
fi
abidw --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$work/$name.abi" \
  "$work/abi.so"
abidiff --no-added-syms --suppressions "$here/abi.suppressions" "$here/$name.abi" \
  "$work/$name.abi" >"$work/abidiff.log" ||
  { cat "$work/abidiff.log" && echo "the binary interface has changed" && exit 1; }
# abidiff passes over a member that moves when another one is added at the end of its struct.
members() {
  sed -n "s/.*<class-decl name='\([^']*\)'.*/struct \1/p
    s/.*<data-member .*layout-offset-in-bits='\([0-9]*\)'.*/offset \1/p
    s/.*<var-decl name='\([^']*\)'.*/member \1/p" "$1" |
    awk '$1 == "struct" { struct = $2 } $1 == "offset" { offset = $2 }
      $1 == "member" { print struct "." $2, offset }' | sort
}
members "$here/$name.abi" >"$work/members.before"
members "$work/$name.abi" >"$work/members.now"
moved=$(comm -23 "$work/members.before" "$work/members.now")
[ -z "$moved" ] || { echo "these members are gone or have moved: $moved" && exit 1; }
echo "the binary interface is compatible with tests/embed/$name.abi"
