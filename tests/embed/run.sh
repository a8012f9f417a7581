#!/bin/sh
# Installs what was built into a prefix of its own, builds two small foreign projects against it
# with nothing but find_package(cpprun), and lets one talk to the other.
#   run.sh BUILD_FOLDER CXX_COMPILER
set -eu
build=$1
compiler=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$build/embed_test
rm -rf "$work"
mkdir -p "$work"
cmake --install "$build" --prefix "$work/prefix" --component development >"$work/install.log"
for part in server client; do
  cmake -G Ninja -S "$here/$part" -B "$work/$part" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_CXX_COMPILER="$compiler" >"$work/$part.log"
  cmake --build "$work/$part" >>"$work/$part.log" || { cat "$work/$part.log"; exit 1; }
done

# The server ends when its input does, that is when this script ends, however that happens.
mkfifo "$work/input" "$work/output"
"$work/server/embed_server" <"$work/input" >"$work/output" &
server=$!
exec 3>"$work/input"
read -r port <"$work/output"
first=$("$work/client/embed_client" "$port")
second=$("$work/client/embed_client" "$port")
exec 3>&-
wait "$server"
echo "$first; $second"
[ "$first" = "hello, visitor 1" ] && [ "$second" = "hello, visitor 2" ]
