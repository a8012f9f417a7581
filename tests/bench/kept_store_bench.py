# SPDX-License-Identifier: BSD-3-Clause
"""The cost of a store that survives the loss of its cpprund: nothing is kept, a log in a file
(--state), a standby on loopback (--etcd, of three members here); in one run, interleaved; medians.

    kept_store_bench.py [--build DIRECTORY] [--rounds N] [--seconds S]

One node per daemon, whose stores are local to it: the load uses the node's port of loopback, as
its workers do. A daemon has the first processor, as on a host of its own; its node, the load and
the standby daemon have the second. Where the kernel moves all of them between the two, ten
thousand times a second, the moves dominate. It passes no judgement.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile

from lost_leader_bench import Etcd
from servers import Server
from store_bench import interleaved


def on(processor, command):
    """That command on that processor, if this machine has as many."""
    return ["taskset", "-c", str(processor % os.cpu_count()), *command]


class Kept:
    """A daemon, one node of it, and the address of the node's store."""

    def __init__(self, name, build, directory, etcd):
        self.name = name
        self.daemons = []
        self.cpprund = os.path.join(build, "rendezvous/cpprund")
        flags = {"file": ["--state", os.path.join(directory, name)],
                 "standby": ["--etcd", etcd.urls]}.get(name, [])
        port = self.daemon(flags)
        if name == "standby":
            self.expect("this cpprund is the leader")
            self.daemon([*flags, "--name", "second"])
            self.expect("is in sync and can become the leader")
        cpprun = os.path.join(build, "launcher/cpprun")
        self.node = Server(name, on(1, [
            cpprun, "--nnodes=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
            "--rdzv-id=kept", "--store=local", "--insecure", "--no-python",
            "sh", "-c", "echo :$MASTER_PORT; exec sleep 3600"]))
        self.port, self.pid = self.node.port, self.daemons[0].pid

    def daemon(self, flags):
        command = [self.cpprund, "--host", "127.0.0.1", "--port", "0", "--no-secret",
                   "--status-access=none", *flags]
        daemon = subprocess.Popen(on(1 if self.daemons else 0, command),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.daemons.append(daemon)
        return int(daemon.stdout.readline().rsplit(":", 1)[1])

    def expect(self, text):
        while text not in self.daemons[0].stderr.readline():
            pass

    def resident(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def end(self):
        self.node.end()
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.communicate()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    os.sched_setaffinity(0, {1 % os.cpu_count()})  # and so the load
    load = os.path.join(options.build, "tests/bench/store_load")
    with tempfile.TemporaryDirectory() as directory:
        names = ("nothing", "file", "standby")
        etcd = Etcd(directory)
        kept = [Kept(name, options.build, directory, etcd) for name in names]
        print("| operation | connections | depth | nothing kept | a log in a file | a standby | "
              "file | standby |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for connections, depth in ((1, 1), (1, 16), (50, 1), (50, 16)):
            for mode in ("get", "set", "add"):
                random.shuffle(kept)
                rate, _ = interleaved(options, kept, load, (mode, connections, depth))
                cells = " | ".join(f"{rate[name] / 1e3:.1f}" for name in names)
                print(f"| {mode} | {connections} | {depth} | {cells} | "
                      f"{rate['file'] / rate['nothing']:.2f} | "
                      f"{rate['standby'] / rate['nothing']:.2f} |", flush=True)
        print("\nResident memory after that, MiB: " +
              ", ".join(f"{each.name} {each.resident() / 2**20:.1f}"
                        for each in sorted(kept, key=lambda each: names.index(each.name))))
        for each in kept:
            each.end()
        etcd.end()


if __name__ == "__main__":
    sys.exit(main())
