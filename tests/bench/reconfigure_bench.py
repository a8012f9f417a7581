# SPDX-License-Identifier: BSD-3-Clause
"""The pause of surviving PyTorch workers: from the loss of another one until all ranks have done an
all_reduce in the next round. --on-failure=restart and reconfigure, with and without --warm, in one
run, one loss of each in turn, medians.

    reconfigure_bench.py CPPRUN [--python PYTHON] [--rounds N] [--nodes]

A worker of four on one node is killed. With --nodes, cpprun is killed on one of four nodes, all on
this machine, and the time includes the lease of 0.9 s. Prints a table and judges nothing.
"""

import argparse
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HUNG_AFTER = 60  # seconds without a sign of the workers
LEASE = "keep_alive_interval=0.3,keep_alive_max_attempt=3,last_call_timeout=60"

WORKER = """
import os, sys, time
import torch, torch.distributed as dist
def work():
    total = torch.ones(1000)
    dist.all_reduce(total)
    # In one piece: under cpprun Python is unbuffered, so print() writes the end of a line alone.
    sys.stdout.write(f"ready {dist.get_rank()} {os.getpid()} {time.monotonic()}\\n")
    while True:
        dist.all_reduce(total)
        time.sleep(0.01)
if os.environ["MODE"] == "reconfigure":
    from cpprun.reconfigure import Rounds
    for place in Rounds("gloo"):
        with place:
            work()
else:
    dist.init_process_group("gloo")
    work()
"""


class Job:
    """Four workers, on one node or on four, which never end by themselves."""

    def __init__(self, cpprun, script, mode, flags, has_nodes):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment = dict(os.environ, MODE=mode, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                           PYTHONPATH=os.path.join(root, "worker", "python"))
        with socket.socket() as probe:  # taken by the first node at once
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = [cpprun, f"--on-failure={mode}", "--max-restarts=1000", *flags]
        if has_nodes:
            self.command = [*common, "--nnodes=3:4", "--nproc-per-node=1", "--rdzv-id=bench",
                            f"--rdzv-endpoint=127.0.0.1:{port}", "--standby=none"]
            commands = [[*self.command, f"--rdzv-conf={LEASE},is_host={int(node == 0)}", script]
                        for node in range(4)]
        else:
            commands = [[*common, "--standalone", "--nproc-per-node=4", script]]
        self.environment, self.ready, self.lines = environment, [], []
        self.changed = threading.Condition()
        self.agents = [self.start(command) for command in commands]
        self.last = commands[-1]

    def start(self, command):
        agent = subprocess.Popen(command, env=self.environment, text=True, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        threading.Thread(target=self.read, args=(agent,), daemon=True).start()
        return agent

    def read(self, agent):
        for line in agent.stdout:
            with self.changed:
                self.lines.append(line)
                if found := re.match(r"ready (\d+) (\d+) ([\d.]+)", line):
                    self.ready.append((int(found[1]), int(found[2]), float(found[3])))
                    self.changed.notify_all()

    def await_ready(self, count, since):
        """Until so many workers have been ready since that time; or None."""
        def found():
            return [each for each in self.ready if each[2] >= since]
        with self.changed:
            if not self.changed.wait_for(lambda: len(found()) >= count, HUNG_AFTER):
                return None
            return found()

    def lose_worker(self, pids):
        lost_at = time.monotonic()
        os.kill(pids[2], signal.SIGKILL)
        return lost_at, self.await_ready(4, lost_at)

    def lose_node(self):
        """Then the node comes back, and the job grows again."""
        lost_at = time.monotonic()
        self.agents[-1].kill()
        self.agents[-1].wait()
        found = self.await_ready(3, lost_at)
        back_at = time.monotonic()
        self.agents[-1] = self.start(self.last)
        return lost_at, found if self.await_ready(4, back_at) else None

    def end(self):
        for agent in self.agents:
            agent.terminate()
        for agent in self.agents:
            agent.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cpprun")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--nodes", action="store_true")
    arguments = parser.parse_args()
    os.environ["PYTHON_EXEC"] = arguments.python
    modes = {"restart": ("restart", []), "restart, --warm": ("restart", ["--warm"]),
             "reconfigure": ("reconfigure", []), "reconfigure, --warm": ("reconfigure", ["--warm"])}
    if arguments.nodes:
        modes = {name: each for name, each in modes.items() if not each[1]}
    pauses = {name: [] for name in modes}
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        jobs = {}
        for name, (mode, flags) in modes.items():
            began = time.monotonic()
            jobs[name] = Job(arguments.cpprun, script, mode, flags, arguments.nodes)
            if not jobs[name].await_ready(4, began):
                sys.exit(f"{name} does not start:\n" + "".join(jobs[name].lines))
        try:
            time.sleep(6)  # the parents of --warm are ready
            for _ in range(arguments.rounds):
                for name, job in jobs.items():
                    pids = {rank: pid for rank, pid, _ in job.ready}
                    lost_at, found = job.lose_node() if arguments.nodes else job.lose_worker(pids)
                    if found is None:
                        sys.exit(f"{name} does not come back:\n" + "".join(job.lines[-30:]))
                    pauses[name].append(1000 * (max(each[2] for each in found) - lost_at))
                    time.sleep(0.5)
        finally:
            for job in jobs.values():
                job.end()
    print("| | median, ms | fastest | slowest |\n| --- | --: | --: | --: |")
    for name, each in pauses.items():
        print(f"| {name} | {statistics.median(each):.0f} | {min(each):.0f} | {max(each):.0f} |")


if __name__ == "__main__":
    main()
