#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Four ranks of one job under cpprun, two of them C++ and two Python, in one process group: the
collectives of both, a sub-group with one of each, and a whole training with one
DistributedDataParallel over all four. Afterwards every rank holds the same parameters, to the last
digit. Then the same with parameters that are not trained, the first, the middle or the last ones,
with either language at rank 0, whose parameters all ranks start with.
Usage: mixed_group.py path/to/cpprun path/to/ddp_worker

Skipped (77) where no Python with torch is found: CPPRUN_PYTHON, else .venv/bin/python."""

import os
import subprocess
import sys
import tempfile

from ddp_parity import find_python, read

RANKS = 4
FROZEN = ("frozen_first", "frozen_middle", "frozen_last")
PARITY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_parity.py")
# What each rank runs depends on its number, as in any job with different roles.
DISPATCH = """case $RANK in
$5) exec "$1" "$4/out.$RANK" "$6";;
*) exec "$2" "$3" --rank "$4/out.$RANK" "$6";;
esac"""
CPP_IS_EVEN, CPP_IS_ODD = "[02]", "[13]"


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


def train(cpprun, cpp_rank, python, ranks, who_is_cpp, mode):
    """What each rank wrote: its parameters after the training, and more in the mode "default"."""
    with tempfile.TemporaryDirectory() as directory:
        job = [cpprun, "--standalone", f"--nproc-per-node={ranks}", "--no-python", "sh", "-c",
               DISPATCH.replace("$5", who_is_cpp).replace("$6", mode), "sh", cpp_rank,
               python, PARITY, directory]
        ended = subprocess.run(job, capture_output=True, text=True, timeout=120, check=False)
        expect(ended.returncode == 0, f"the job ({mode}, C++ at {who_is_cpp}) ended with "
               f"{ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return [read(os.path.join(directory, f"out.{rank}")) for rank in range(ranks)]


def check_same_parameters(outs, what):
    trained = [{key: value for key, value in out.items() if key[1] not in ("loss",)
                and key[0] != "collectives"} for out in outs]
    expect(len(trained[0]) > 1000, f"{what}: parameters were written")
    for rank in range(1, len(outs)):
        expect(trained[rank] == trained[0], f"{what}: the parameters of ranks 0 and {rank} differ")
    print(f"{what}: {len(trained[0])} parameters, identical on all ranks")


def main():
    cpprun, cpp_rank = sys.argv[1:]
    python = find_python()
    if not python:
        print("skipped: no Python with torch (set CPPRUN_PYTHON, or make .venv with it)")
        sys.exit(77)
    outs = train(cpprun, cpp_rank, python, RANKS, CPP_IS_EVEN, "default")
    check_collectives(outs)
    check_same_parameters(outs, "C++, Python, C++, Python")
    for mode in FROZEN:
        for who, what in ((CPP_IS_EVEN, "C++, Python"), (CPP_IS_ODD, "Python, C++")):
            outs = train(cpprun, cpp_rank, python, 2, who, mode)
            check_same_parameters(outs, f"{mode}: {what}")


main()
