#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Compares torchrun and cpprun with the Python that has a torch: $CPPRUN_PYTHON or the repository's
# .venv. Exits 77, skipped, where there is none.
#   run.sh [--warm] PATH_TO_CPPRUN [PART OF THE NAME OF A CASE]
directory=$(dirname "$0")
python=${CPPRUN_PYTHON:-$directory/../../../.venv/bin/python}
if ! command -v "$python" >/dev/null; then
  echo "skipped: there is no $python to run torchrun with; ./dev setup fetches one"
  exit 77
fi
exec "$python" -B "$directory/conformance.py" "$@"
