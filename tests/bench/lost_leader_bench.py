# SPDX-License-Identifier: BSD-3-Clause
"""How long a worker waits for its store when the leading cpprund is lost, or transfers leadership:

    lost_leader_bench.py [--build DIRECTORY] [--losses N] [--python PYTHON]

Two cpprunds, an etcd of three members here, one node whose stores are local. A worker adds to a
number all the time, and its longest wait for an answer around each event is printed; every answer
must be one more than the one before, or this stops. Loss is SIGKILL; a lost cpprund is restarted.
"""

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORKER = r"""
import os, sys, time
from torch.distributed import TCPStore
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
last, reported = 0, time.monotonic()
worst = 0.0
while True:
    began = time.monotonic()
    now = store.add("count", 1)
    if now != last + 1:
        print("WRONG", last, now, flush=True)
        sys.exit(1)
    last = now
    took = time.monotonic() - began
    worst = max(worst, took)
    if time.monotonic() - reported > 0.25:
        print(worst, flush=True)
        worst, reported = 0.0, time.monotonic()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Etcd:
    def __init__(self, directory):
        ports = [(free_port(), free_port()) for _ in range(3)]
        all_members = ",".join(f"m{n}=http://127.0.0.1:{peer}" for n, (_, peer) in enumerate(ports))
        self.members = []
        for number, (client, peer) in enumerate(ports):
            mine = [f"--listen-client-urls=http://127.0.0.1:{client}",
                    f"--advertise-client-urls=http://127.0.0.1:{client}",
                    f"--listen-peer-urls=http://127.0.0.1:{peer}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}"]
            self.members.append(subprocess.Popen(
                ["etcd", f"--name=m{number}", f"--data-dir={directory}/m{number}", *mine,
                 f"--initial-cluster={all_members}"], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL))
        self.urls = ",".join(f"http://127.0.0.1:{client}" for client, _ in ports)

    def end(self):
        for member in self.members:
            member.kill()
            member.wait()


class Daemon:
    def __init__(self, program, name, port, etcd):
        self.program, self.name, self.port, self.etcd = program, name, port, etcd
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(
            [self.program, "--host=127.0.0.1", f"--port={self.port}", "--no-secret",
             "--status-access=none", f"--etcd={self.etcd}", f"--name={self.name}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines, self.news = [], threading.Condition()
        threading.Thread(target=self.read, args=(self.process,), daemon=True).start()

    def read(self, process):
        for line in process.stderr:
            with self.news:
                self.lines.append(line)
                self.news.notify_all()

    def expect(self, text):
        with self.news:
            self.news.wait_for(lambda: any(text in line for line in self.lines), timeout=60)
            if not any(text in line for line in self.lines):
                sys.exit(f"{self.name} has not said \"{text}\": {''.join(self.lines[-5:])}")


class Worker:
    """Its longest waits, as it prints them."""

    def __init__(self, options, places, directory):
        script = os.path.join(directory, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        self.process = subprocess.Popen(
            [os.path.join(options.build, "launcher/cpprun"), "--nnodes=1", "--rdzv-backend=c10d",
             f"--rdzv-endpoint={places}", "--rdzv-id=lost", "--store=local", "--insecure",
             "--no-python", options.python, script],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.waits = []
        self.wait_for(2)

    def wait_for(self, count):
        for _ in range(count):
            line = self.process.stdout.readline()
            if not line or line.startswith("WRONG"):
                sys.exit(f"the worker has ended: {line}")
            self.waits.append(float(line))

    def longest_around(self, happens):
        self.waits.clear()
        happens()
        self.wait_for(3)
        while max(self.waits[-3:]) > 0.2:
            self.wait_for(1)
        return max(self.waits)

    def end(self):
        self.process.terminate()
        self.process.wait()


def row(name, waits):
    print(f"| {name} | {len(waits)} | {min(waits) * 1e3:.0f} | "
          f"{statistics.median(waits) * 1e3:.0f} | {max(waits) * 1e3:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--losses", type=int, default=7)
    parser.add_argument("--python", default=os.environ.get("CPPRUN_PYTHON", sys.executable))
    options = parser.parse_args()
    program = os.path.join(options.build, "rendezvous/cpprund")
    with tempfile.TemporaryDirectory() as directory:
        etcd = Etcd(directory)
        leader = Daemon(program, "a", free_port(), etcd.urls)
        leader.expect("this cpprund is the leader")
        standby = Daemon(program, "b", free_port(), etcd.urls)
        leader.expect("is in sync and can become the leader")
        worker = Worker(options, f"127.0.0.1:{leader.port},127.0.0.1:{standby.port}", directory)
        print("| event | times | least, ms | median, ms | most, ms |")
        print("| --- | --- | --- | --- | --- |")
        for name, word in (("SIGKILL of the leader", signal.SIGKILL),
                           ("handed over (SIGTERM)", signal.SIGTERM)):
            waits = []
            for _ in range(options.losses):
                def happens():
                    leader.process.send_signal(word)
                    leader.process.wait()
                waits.append(worker.longest_around(happens))
                standby.expect("this cpprund is the leader")
                leader.begin()
                leader, standby = standby, leader
                leader.expect("is in sync and can become the leader")
            row(name, waits)
        worker.end()
        for daemon in (standby, leader):
            daemon.process.terminate()
            daemon.process.wait()
        etcd.end()


if __name__ == "__main__":
    main()
