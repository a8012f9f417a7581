#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A thousand ranks hang, and one of them is the cause: from the moment at which the timeout is over
until the verdict is on the console.

    hang_crowd_bench.py BUILD [--rounds N] [--layout NODESxRANKS…]

All nodes are real cppruns on this machine, and all ranks are processes that answer as the probe of
a Python worker does (hang_worker.cpp). Prints the table of docs/performance.md. Fails only if the
verdict does not name the rank.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TIMEOUT = 5  # seconds without progress


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Node:
    def __init__(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace")
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append((time.time(), line.rstrip("\n")))

    def wait(self):
        try:
            self.process.wait(TIMEOUT + 120)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join()
        self.process.stderr.close()


def hang_once(build, node_count, ranks_per_node):
    ranks = node_count * ranks_per_node
    odd = ranks * 7 // 9
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        report, began = os.path.join(directory, "report.json"), os.path.join(directory, "began")
        nodes = [
            Node([os.path.join(build, "launcher/cpprun"), f"--nnodes={node_count}",
                  f"--nproc-per-node={ranks_per_node}", f"--node-rank={node}",
                  "--master-addr=127.0.0.1", f"--master-port={port}", f"--hang-timeout={TIMEOUT}",
                  "--shutdown-timeout=1", f"--report={report}{node or ''}", "--no-python",
                  os.path.join(build, "tests/bench/hang_worker"), str(odd), began])
            for node in range(node_count)]
        for each in nodes:
            each.wait()
        console = nodes[0].lines
        try:
            with open(report) as file:
                hang = json.load(file)["hang"]
            began_at = os.stat(began).st_mtime
        except OSError as error:
            sys.exit(f"hang_crowd_bench: {error}\n" + "\n".join(line for _, line in console))
    if hang is None or hang["rank"] != odd or hang["kind"] != "missing":
        sys.exit(f"hang_crowd_bench: rank {odd} is not named: {hang}\n" +
                 "\n".join(line for _, line in console))
    said_at = next(at for at, line in console if "the job is hung" in line)
    return {"verdict": hang["quiet"] - TIMEOUT, "console": said_at - began_at - TIMEOUT}


def layout(text):
    nodes, ranks = map(int, text.split("x"))
    return nodes, ranks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", type=layout, nargs="+", default=[(20, 50), (125, 8)])
    options = parser.parse_args()
    print("| nodes | ranks | from the timeout to the verdict, s | most "
          "| from the hang and the timeout to the console, s | most |")
    print("| --- | --- | --- | --- | --- | --- |")
    for node_count, ranks_per_node in options.layout:
        rounds = [hang_once(options.build, node_count, ranks_per_node)
                  for _ in range(options.rounds)]
        cells = [node_count, node_count * ranks_per_node]
        for name in ("verdict", "console"):
            values = [each[name] for each in rounds]
            cells += [f"{statistics.median(values):.2f}", f"{max(values):.2f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
