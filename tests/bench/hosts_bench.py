#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The time to the last worker on N hosts: cpprun --hosts beside one remote shell after the other.

    hosts_bench.py CPPRUN [HOSTS] [RUNS]

Every host is this machine; its remote shell takes 100 ms to start, like ssh in a data center.
Only the way there differs: N cpprun and N workers on two cores cost the same either way.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CPPRUN = sys.argv[1]
HOSTS = int(sys.argv[2]) if len(sys.argv) > 2 else 64
RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 5
SHELL = '#!/bin/sh\nshift\nsleep 0.1\nexec "$@"\n'


def free_port():
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def last_worker(directory):
    """When the last of the workers was executed, by the clock of their files."""
    return max(os.stat(os.path.join(directory, each)).st_mtime for each in os.listdir(directory))


def by_console(shell, directory):
    hosts = ",".join(f"h{number}" for number in range(HOSTS))
    subprocess.run([CPPRUN, "--hosts", hosts, "--remote-shell", shell, "--master-addr=127.0.0.1",
                    "--insecure", "--no-python", "sh", "-c", f": >{directory}/$RANK"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def one_by_one(shell, directory):
    """A loop over the hosts, as in many a script: `ssh HOST 'cpprun … &'`."""
    port = free_port()
    agents = []
    for number in range(HOSTS):
        agents.append(subprocess.Popen(
            [CPPRUN, f"--nnodes={HOSTS}", f"--node-rank={number}", "--master-addr=127.0.0.1",
             f"--master-port={port}", "--insecure", "--no-python", "sh", "-c",
             f": >{directory}/$RANK"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        # The shell starts it in the background, and exits.
        subprocess.run([shell, f"h{number}", "true"], check=True)
    for agent in agents:
        agent.wait()


def measure(way, shell):
    directory = tempfile.mkdtemp(prefix="cpprun-bench-")
    try:
        began = time.time()
        way(shell, directory)
        assert len(os.listdir(directory)) == HOSTS
        return last_worker(directory) - began
    finally:
        shutil.rmtree(directory)


def main():
    place = tempfile.mkdtemp(prefix="cpprun-bench-")
    shell = os.path.join(place, "shell")
    with open(shell, "w", encoding="utf-8") as file:
        file.write(SHELL)
    os.chmod(shell, 0o755)
    together, single = [], []
    for _ in range(RUNS):
        together.append(measure(by_console, shell))
        single.append(measure(one_by_one, shell))
    shutil.rmtree(place)
    print(f"| {HOSTS} hosts, {RUNS} runs, to the last worker | median s | least | most |")
    print("| --- | --- | --- | --- |")
    for name, times in (("cpprun --hosts", together), ("one shell after the other", single)):
        print(f"| {name} | {statistics.median(times):.2f} | {min(times):.2f} | {max(times):.2f} |")
    print(f"ratio {statistics.median(single) / statistics.median(together):.1f}")


main()
