#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# plant.sh SOURCE TARGET FILE…: copies FILEs of the tree SOURCE into TARGET and plants every bug of
# this directory, or of the directory PLANTS, into the copies.
set -eu
here=${PLANTS:-$(cd "$(dirname "$0")" && pwd)}
source=$1 target=$2
shift 2
command -v patch >/dev/null || {
  echo "plant.sh: the planted bugs need the program patch: apt-get install patch" >&2
  exit 1
}
for file; do
  mkdir -p "$target/$(dirname "$file")"
  cp "$source/$file" "$target/$file"
done
for plant in "$here"/*.patch; do
  patch --quiet --batch --forward --no-backup-if-mismatch -r - -p1 -d "$target" <"$plant" || {
    echo "plant.sh: $(basename "$plant") no longer applies, because the code it breaks has" \
         "changed: make it plant the same bug in today's code (see docs/simulator.md)" >&2
    exit 1
  }
done
