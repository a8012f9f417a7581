#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What --probe=on adds to a launch of PyTorch workers, which meet and exit.

    probe_bench.py CPPRUN [--python PYTHON] [--pairs N] [--workers N]

Runs with and without the probe take turns, in an order that changes from pair to pair. Of each
pair: CPU time of cpprun and all workers, wall-clock time until all workers have met, and until
cpprun has exited. Prints a table and judges nothing.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

WORKER = """
import os, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
with open(os.environ["MET"], "a") as file:
    file.write(f"{time.monotonic()}\\n")
dist.destroy_process_group()
"""


def launch(options, script, met, probe):
    if os.path.exists(met):
        os.unlink(met)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    subprocess.run(
        [options.cpprun, "--standalone", f"--nproc-per-node={options.workers}", f"--probe={probe}",
         script], check=True, stdin=subprocess.DEVNULL, capture_output=True,
        env={**os.environ, "PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1", "MET": met})
    end = time.monotonic()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(met) as file:
        times = [float(line) for line in file]
    assert len(times) == options.workers
    return {"CPU": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "until all workers have met": max(times) - begin,
            "until cpprun has exited": end - begin}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cpprun", type=os.path.abspath)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    runs = {"off": [], "on": []}
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "train.py")
        with open(script, "w") as file:
            file.write(WORKER)
        for pair in range(-1, options.pairs):  # the first one fills the page cache
            for probe in ("off", "on") if pair % 2 else ("on", "off"):
                run = launch(options, script, os.path.join(directory, "met"), probe)
                if pair >= 0:
                    runs[probe].append(run)
    print(f"{options.workers} workers, {options.pairs} pairs")
    print("| seconds | without | with the probe | difference of the pairs | quartiles | in % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in runs["off"][0]:
        off = statistics.median(run[name] for run in runs["off"])
        on = statistics.median(run[name] for run in runs["on"])
        added = [with_it[name] - without[name] for without, with_it in zip(runs["off"], runs["on"])]
        low, middle, high = statistics.quantiles(added, n=4)
        print(f"| {name} | {off:.3f} | {on:.3f} | {middle:+.4f} | {low:+.4f} to {high:+.4f} "
              f"| {100 * middle / off:+.1f} |")


if __name__ == "__main__":
    main()
