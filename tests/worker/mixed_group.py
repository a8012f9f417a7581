#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Four ranks of one job under cpprun, two of them C++ and two Python, in one process group: the
collectives of both, a sub-group with one of each, and a whole training with one
DistributedDataParallel over all four. Afterwards every rank holds the same parameters, to the last
digit. Usage: mixed_group.py path/to/cpprun path/to/ddp_worker

Skipped (77) where no Python with torch is found: CPPRUN_PYTHON, else .venv/bin/python."""

import os
import subprocess
import sys
import tempfile

from ddp_parity import find_python, read

RANKS = 4
PARITY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_parity.py")
# What each rank runs is decided by its number, as in any job with different roles.
DISPATCH = """case $RANK in
0|2) exec "$1" "$4/out.$RANK" default;;
*) exec "$2" "$3" --rank "$4/out.$RANK" default;;
esac"""


def expect(condition, what):
    if not condition:
        sys.exit(f"mixed_group: {what}")


def check_collectives(outs):
    for rank, out in enumerate(outs):
        def said(what, at=out):
            return at[("collectives", what, "0")]

        expect(said("gathered") == 1.5, "all_gather: rank 1 brings 1.5")
        expect(said("reduced") == 10, "all_reduce: 1 + 2 + 3 + 4")
        expect(said("scattered") == RANKS * 2 * rank + 6, "reduce_scatter of own rows")
        expect(said("exchanged") == 2 * rank + 2, "all_to_all: what rank 2 has for us")
        expect(said("received") == (rank + RANKS - 1) % RANKS, "the ring's message")
        if rank in (0, RANKS - 1):
            expect(said("ends") == 3 + RANKS + 2, "the sum of the first and the last rank")


def main():
    cpprun, cpp_rank = sys.argv[1:]
    python = find_python()
    if not python:
        print("skipped: no Python with torch (set CPPRUN_PYTHON, or make .venv with it)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        job = [cpprun, "--standalone", f"--nproc-per-node={RANKS}", "--no-python", "sh", "-c",
               DISPATCH, "sh", cpp_rank, python, PARITY, folder]
        ended = subprocess.run(job, capture_output=True, text=True, timeout=280, check=False)
        expect(ended.returncode == 0,
               f"the job ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        outs = [read(os.path.join(folder, f"out.{rank}")) for rank in range(RANKS)]
    check_collectives(outs)
    trained = [{key: value for key, value in out.items() if key[1] not in ("loss",)
                and key[0] != "collectives"} for out in outs]
    expect(len(trained[0]) > 1000, "parameters were written")
    for rank in range(1, RANKS):
        expect(trained[rank] == trained[0], f"the parameters of ranks 0 and {rank} differ")
    print(f"C++, Python, C++, Python: {len(trained[0])} parameters, identical on all ranks")


main()
