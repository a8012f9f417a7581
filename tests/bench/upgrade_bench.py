# SPDX-License-Identifier: BSD-3-Clause
"""Replacing the cpprun of a running job (cpprunctl upgrade-agent): for how long no program ran, by
its own event; how long the whole command took; and the longest pause in which no line of a worker
that prints all the time came through. Jobs of 1, 8 and 64 workers, medians and maxima.

    upgrade_bench.py CPPRUN CPPRUNCTL [--upgrades N]

Prints the table of docs/performance.md and judges nothing.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time

# One worker prints; the others wait.
WORKER = 'if [ "$RANK" = 0 ]; then while :; do echo line; done; else exec sleep 100000; fi'


class Job:
    def __init__(self, cpprun, workers, directory):
        self.events = os.path.join(directory, "events.jsonl")
        self.environment = dict(os.environ, XDG_RUNTIME_DIR="", TMPDIR=directory)
        self.process = subprocess.Popen(
            [cpprun, "--standalone", f"--nproc-per-node={workers}", f"--events={self.events}",
             "--tee=3", f"--log-dir={directory}/logs", "--log-max-bytes=1000000", "--no-python",
             "sh", "-c", WORKER],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pause = 0.0
        self.began = threading.Event()
        threading.Thread(target=self.read, daemon=True).start()
        self.began.wait()

    def read(self):
        last = time.monotonic()
        while self.process.stdout.read1(1 << 16):
            now = time.monotonic()
            self.pause = max(self.pause, now - last)
            last = now
            self.began.set()

    def upgrades(self):
        with open(self.events) as file:
            found = [json.loads(line) for line in file]
        return [1000 * each["took"] for each in found if each["event"] == "agent_upgraded"]

    def workers_started(self):
        with open(self.events) as file:
            return sum('"worker_started"' in line for line in file)

    def end(self):
        self.process.terminate()
        self.process.wait()


def measure(options, workers):
    with tempfile.TemporaryDirectory() as directory:
        job = Job(options.cpprun, workers, directory)
        while job.workers_started() < workers:
            time.sleep(0.05)
        commands, pauses = [], []
        while len(commands) < options.upgrades:
            job.pause = 0.0
            began = time.monotonic()
            done = subprocess.run([options.cpprunctl, "upgrade-agent"], env=job.environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                print(f"  {done.stderr.strip()}")
                time.sleep(0.5)  # the control socket is opened a while after the start
                continue
            commands.append(1000 * (time.monotonic() - began))
            pauses.append(1000 * job.pause)
        took = job.upgrades()
        job.end()
    row = [f"{statistics.median(each):.1f} | {max(each):.1f}" for each in (took, pauses, commands)]
    print(f"| {workers} | " + " | ".join(row) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cpprun")
    parser.add_argument("cpprunctl")
    parser.add_argument("--upgrades", type=int, default=20)
    options = parser.parse_args()
    print("| workers | no program ran, ms, median | max | no line came, median | max | "
          "whole command, median | max |")
    print("| --: | --: | --: | --: | --: | --: | --: |")
    for workers in (1, 8, 64):
        measure(options, workers)


if __name__ == "__main__":
    main()
