# SPDX-License-Identifier: BSD-3-Clause
"""The cost of passing the workers' output through cpprun: lines and bulk on stderr, into a file
and into a pipe, beside --stderr=inherit. Prints the table of docs/performance.md only."""

import argparse
import os
import statistics
import subprocess
import tempfile
import time

LINES = 1_000_000
BYTES = 1 << 30

WORKERS = {
    # One write for each line, as Python's and C's stderr do it.
    f"{LINES // 1000},000 lines": f"stdbuf -oL seq {LINES} >&2",
    "1 GiB in large writes": f"head -c {BYTES} /dev/zero >&2",
    "nothing": "true",
}


def launch(cpprun, kind, script, into):
    """Seconds of wall-clock time and of processor time, cpprun and worker together."""
    words = [cpprun, "--standalone", f"--stderr={kind}", "--no-python", "sh", "-c", script]
    with tempfile.TemporaryDirectory() as directory:
        target = open(os.path.join(directory, "log"), "wb")
        reader = None
        if into == "pipe":
            reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            target = reader.stdin
        begun = time.monotonic()
        job = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=target)
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        assert job.returncode == 0, words
        target.close()
        if reader:
            reader.wait()
        return time.monotonic() - begun, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    settings = parser.parse_args()
    cpprun = os.path.join(settings.build, "launcher", "cpprun")
    print("| on stderr | into | inherit, s | pass, s | inherit, CPU s | pass, CPU s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for what, script in WORKERS.items():
        for into in ("file", "pipe"):
            seen = {"inherit": [], "pass": []}
            for _ in range(settings.rounds):
                for kind, figures in seen.items():
                    figures.append(launch(cpprun, kind, script, into))
            median = {
                kind: [statistics.median(column) for column in zip(*figures)]
                for kind, figures in seen.items()
            }
            print(f"| {what} | {into} | {median['inherit'][0]:.3f} | {median['pass'][0]:.3f} "
                  f"| {median['inherit'][1]:.3f} | {median['pass'][1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
