#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Starts the ranks of one job on this machine, as a launcher would, and waits for them within a
timeout. For tests that must not depend on the launcher. Only the standard library.

    ranks.py 2 program --option
"""

import os
import random
import socket
import subprocess
import sys
import time

WAIT_SECONDS_MAX = 240


def free_port():
    """A port without a listener, below the range of ephemeral ports: one of those may be lent
    to a client between this probe and the rank that listens."""
    for port in random.sample(range(20000, 30000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise OSError("no free port between 20000 and 29999")


def environment_of(rank, world_size, port, more=None):
    environment = dict(os.environ)
    environment.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        GROUP_RANK="0",
        WORLD_SIZE=str(world_size),
        LOCAL_WORLD_SIZE=str(world_size),
        GROUP_WORLD_SIZE="1",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
        GLOO_SOCKET_IFNAME="lo",
        OMP_NUM_THREADS="1",
    )
    environment.update(more or {})
    return environment


class Ended:
    def __init__(self, code, output):
        self.code = code
        self.output = output


def run_ranks(commands, more=None):
    """One command per rank; `more` may add variables to each. Returns one Ended per rank. When
    one fails the others are not ended: they are expected to notice."""
    port = free_port()
    processes = [
        subprocess.Popen(
            command,
            env=environment_of(rank, len(commands), port, (more or {}).get(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        for rank, command in enumerate(commands)
    ]
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    ended = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=max(1, deadline - time.monotonic()))
            ended.append(Ended(process.returncode, output))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return ended


def main():
    world_size = int(sys.argv[1])
    ended = run_ranks([sys.argv[2:]] * world_size)
    for rank, each in enumerate(ended):
        for line in each.output.splitlines():
            print(f"[{rank}] {line}")
    return next((abs(each.code) for each in ended if each.code != 0), 0)


if __name__ == "__main__":
    sys.exit(main())
