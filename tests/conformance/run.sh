#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs store_clients.py with every Python here that has torch: $CPPRUN_PYTHON or the repository's
# .venv, and the system's. Exits 77, skipped, if none has.
#   run.sh PATH_TO_CPPRUND | PATH_TO_CPPRUN
directory=$(dirname "$0")
ran=0
failed=0
modern=${CPPRUN_PYTHON:-$directory/../../.venv/bin/python}
for python in "$modern" /usr/bin/python3; do
  if [ ! -x "$python" ] && ! command -v "$python" >/dev/null; then
    echo "skipped: there is no $python"
    continue
  fi
  "$python" "$directory/store_clients.py" "$1"
  case $? in
    0) ran=1 ;;
    77) ;;
    *) ran=1 failed=1 ;;
  esac
done
[ "$failed" = 0 ] || exit 1
[ "$ran" = 1 ] || exit 77
