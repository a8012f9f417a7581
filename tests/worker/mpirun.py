#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts a program by mpirun on this machine, and waits for it within a timeout. Exits with 77 if
there is no mpirun. Only the standard library.

    mpirun.py 3 program --option

Of a test program it prints the output of rank 0, and that of the others only after a failure.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from ranks import free_port

SECONDS_MAX = 240


def why_not():
    """Why mpirun cannot start programs here, or an empty string."""
    return "" if shutil.which("mpirun") else "no mpirun (Debian: openmpi-bin)"


def command(count, words, *options):
    """More processes than processors, and as root in a container, both of which mpirun asks for."""
    return ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-np",
            str(count), *options, *words]


def run(count, words, *options, **more):
    """Returns the exit code and all output."""
    # Ranks that a launcher around this test has set are not mpirun's.
    foreign = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    environment.update(MASTER_PORT=str(free_port()), OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo",
                       RES_OPTIONS="timeout:1 attempts:1")
    environment.update(more)
    started = subprocess.Popen(
        command(count, words, *options), env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        output = started.communicate(timeout=SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGTERM)
        output = started.communicate()[0] + f"\n(no end within {SECONDS_MAX} s)"
    return started.returncode, output


def main():
    if why_not():
        print(f"skipped: {why_not()}")
        return 77
    with tempfile.TemporaryDirectory(prefix="cpprun-mpi-") as directory:
        said = pathlib.Path(directory, "said")
        code, output = run(int(sys.argv[1]), sys.argv[2:], "--output-filename",
                           f"{said}:nojobid,nocopy", CPPRUN_TEST_DIRECTORY=directory)
        for each in sorted(said.glob("**/std*")):
            of_first = each.parent.name in ("rank.0", "rank.00")
            if code != 0 or of_first:
                if not of_first:
                    print(f"--- {each.parent.name}")
                print(each.read_text(encoding="utf-8", errors="replace"), end="")
        print(output, end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
