#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checks the installed headers as another project would use them: each compiles alone and without a
# warning, in every language it is for, and includes nothing of ours that is not installed.
#   headers.sh PREFIX C_COMPILER CXX_COMPILER
set -eu
include=$1/include
cc=$2
cxx=$3
if [ "$(ls "$include")" != cpprun ]; then
  echo "more than include/cpprun is installed: $(ls "$include")"
  exit 1
fi
if grep -rn '#include "' "$include"; then
  echo "a public header includes one of the house"
  exit 1
fi
compile() {
  "$@" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$include" ||
    { echo "not clean: $*"; exit 1; }
}
for header in store job heartbeat_file; do
  echo "#include <cpprun/$header.h>" >"$1/one.c"
  for standard in c99 c17; do compile "$cc" -std=$standard "$1/one.c"; done
done
for header in store job store_server store_client async_store_client expected heartbeat_file; do
  echo "#include <cpprun/$header.h>" >"$1/one.cpp"
  for standard in c++17 c++20; do compile "$cxx" -std=$standard "$1/one.cpp"; done
  compile "$cxx" -std=c++17 -fno-exceptions -fno-rtti "$1/one.cpp"
done
for header in worker context heartbeat rank; do
  echo "#include <cpprun/$header.h>" >"$1/one.cpp"
  compile "$cxx" -std=c++20 "$1/one.cpp"
done
echo "#include <asio/associated_cancellation_slot.hpp>" >"$1/one.cpp"
if "$cxx" -std=c++20 -E "$1/one.cpp" >/dev/null 2>&1; then
  echo "#include <cpprun/asio_store_client.h>" >"$1/one.cpp"
  compile "$cxx" -std=c++20 "$1/one.cpp"
fi
