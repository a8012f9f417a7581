#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program `toy`, from outside: toy_test.py path/to/toy path/to/cpprun"""

import os
import re
import subprocess
import sys

from ranks import free_port

TOY, CPPRUN = sys.argv[1:]
DONE = re.compile(
    r"rank (\d+) of (\d+) \(node (\d+), local rank \d+\): done, .* (-?[0-9.]+)$", re.M)
LOSS = re.compile(r"step 5  mean loss ([0-9.]+)")


def start(*words):
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )


def end(*processes):
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    return max(process.returncode for process in processes), "".join(outputs)


def check(condition, what, output=""):
    if not condition:
        sys.exit(f"toy_test: {what}\n{output}")


def trains(world_size, nodes, *processes):
    code, output = end(*processes)
    done = DONE.findall(output)
    check(code == 0, f"must end well, not with {code}", output)
    check(sorted(int(each[0]) for each in done) == list(range(world_size)), "all ranks", output)
    check({int(each[2]) for each in done} == set(range(nodes)), "all nodes", output)
    check(len({each[3] for each in done}) == 1, "equal parameters on all ranks", output)
    return LOSS.search(output)[1]


def main():
    launched = trains(2, 1, start(CPPRUN, "--standalone", "--nproc-per-node=2", TOY))
    spawned = trains(2, 1, start(TOY, "--spawn", "2"))
    check(launched == spawned, f"launched {launched}, spawned {spawned}: must be one job")
    split = trains(2, 1, start(TOY, "--spawn=2", "--demo=model_parallel"))
    check(split == launched, "the model in two parts is the same model")
    meeting = ["--gpus", "2,1", f"--master-port={free_port()}"]
    trains(3, 2, start(TOY, *meeting, "--nr=1"), start(TOY, *meeting, "--nr=0"))

    code, output = end(start(CPPRUN, "--standalone", "--nproc-per-node=2", TOY, "--spawn=2"))
    check(code == 2 and "omit --spawn under cpprun" in output, "no spawning workers", output)
    code, output = end(start(TOY, "--spawn=2,x"))
    check(code == 2 and "--spawn=2,x: expected the number" in output, "usage is 2", output)
    code, output = end(start(TOY, "--spawn=2,1"))
    check(code == 2 and "--master-port" in output, "several nodes need a place to meet", output)
    print(f"toy: launched, spawned and split: mean loss {launched} after 5 steps")


main()
