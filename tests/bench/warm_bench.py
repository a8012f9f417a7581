# SPDX-License-Identifier: BSD-3-Clause
"""Restarting two PyTorch workers: from the death of one of them until both have done an all_reduce
and a backward pass in the new round. torchrun, cpprun and cpprun --warm, Python and C++, on one
node and on two (two launchers on this machine), all in one run: one restart of each in turn,
medians.

    warm_bench.py CPPRUN [--python PYTHON] [--cpp DDP_WORKER] [--rounds N] [--only PART OF A NAME]

Prints the table of docs/performance.md and judges nothing.
"""

import argparse
import os
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

HUNG_AFTER = 30  # seconds without a sign of the workers

WORKER = """
import os, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
sum_ = torch.ones(1000)
dist.all_reduce(sum_)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
model(torch.ones(8, 100)).sum().backward()
results = os.open(os.environ["RESULTS"], os.O_WRONLY)
os.write(results, b"done %d %f\\n" % (rank, time.monotonic()))
with open(os.environ["GATE"] + str(rank)) as gate:
    gate.readline()
os.write(results, b"died %d %f\\n" % (rank, time.monotonic()))
os._exit(1)
"""


class Job:
    """Two workers that wait for the command to die. None of them dies without it."""

    def __init__(self, command, program, nodes, directory, restarts):
        os.mkdir(directory)
        self.gates = []
        for name in ("results", "gate0", "gate1"):
            os.mkfifo(os.path.join(directory, name))
            self.gates.append(os.open(os.path.join(directory, name), os.O_RDWR))
        self.results = self.gates.pop(0)
        self.lines = []
        script = os.path.join(directory, "worker.py")
        with open(script, "w") as file:
            file.write(WORKER)
        environment = dict(os.environ, RESULTS=os.path.join(directory, "results"),
                           GATE=os.path.join(directory, "gate"), CPPRUN_LOG_LEVEL="debug",
                           OMP_NUM_THREADS="1")
        words = ["--standalone", "--nproc-per-node=2"]
        if nodes == 2:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            words = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=bench",
                     f"--rdzv-endpoint=127.0.0.1:{port}"]
        words += [f"--max-restarts={restarts}", *(program or [script])]
        self.ready = threading.Semaphore(0)  # of each node's parent
        self.memory = ""
        self.processes = [
            subprocess.Popen(command + words, env=environment, text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for _ in range(nodes)]
        for each in self.processes:
            threading.Thread(target=self.read, args=(each,), daemon=True).start()
        self.is_up = self.await_done() is not None

    def read(self, process):
        for line in process.stderr:
            found = re.search(r"process that forks workers \(pid (\d+)\) is ready; it (.*)", line)
            if found:
                with open(f"/proc/{found[1]}/smaps_rollup") as file:
                    sizes = dict(re.findall(r"(\w+): +(\d+) kB", file.read()))
                self.memory = (f"{found[2]}, of which {int(sizes['Anonymous']) // 1024} MiB "
                               "anonymous")
                self.ready.release()

    def next_line(self):
        """None: the workers hang, as torchrun's do after some restarts."""
        while not self.lines:
            if not select.select([self.results], [], [], HUNG_AFTER)[0]:
                return None
            self.lines = os.read(self.results, 4096).decode().splitlines()  # whole lines
        return self.lines.pop(0)

    def await_done(self):
        """How long after the death of one rank the slower one was done, 0 at the start; None: they
        hang."""
        done = {}
        died = None
        while len(done) < 2:
            line = self.next_line()
            if line is None:
                return None
            word, rank, time = line.split()
            if word == "died":
                died, done = float(time), {}
            else:
                done[rank] = float(time)
        return max(done.values()) - died if died is not None else 0

    def restart(self):
        os.write(self.gates[0], b"\n")
        return self.await_done()

    def end(self):
        for each in self.processes:
            each.terminate()
        for each in self.processes:
            try:
                each.wait(HUNG_AFTER)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        for each in [self.results, *self.gates]:
            os.close(each)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cpprun")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cpp")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.environ["PYTHON_EXEC"] = options.python
    torchrun = [options.python, "-m", "torch.distributed.run"]
    native = options.cpp and ["--no-python", options.cpp, "restart"]
    commands = {}
    for nodes in (1, 2):
        place = "one node" if nodes == 1 else "two nodes"
        commands[f"torchrun, Python, {place}"] = (torchrun, None, nodes)
        commands[f"cpprun, Python, {place}"] = ([options.cpprun], None, nodes)
        commands[f"**cpprun --warm**, Python, {place}"] = ([options.cpprun, "--warm"], None, nodes)
        if native:
            commands[f"torchrun, C++, {place}"] = (torchrun, native, nodes)
            commands[f"cpprun, C++, {place}"] = ([options.cpprun], native, nodes)
    commands = {name: each for name, each in commands.items() if options.only in name}
    with tempfile.TemporaryDirectory() as directory:
        def job_of(name):
            place = tempfile.mkdtemp(dir=directory)
            job = Job(*commands[name], os.path.join(place, "job"), options.rounds)
            if "--warm" in commands[name][0]:
                for _ in job.processes:
                    job.ready.acquire(timeout=60)
            return job

        jobs = {name: job_of(name) for name in commands}
        times = {name: [] for name in jobs}
        hung = dict.fromkeys(jobs, 0)
        try:
            for _ in range(options.rounds):
                for name in jobs:
                    time = jobs[name].restart() if jobs[name].is_up else None
                    if time is not None:
                        times[name].append(time)
                        continue
                    hung[name] += 1
                    jobs[name].end()
                    jobs[name] = job_of(name)
        except KeyboardInterrupt:
            pass  # prints what there is
        for job in jobs.values():
            job.end()
    print("| death of a PyTorch worker → all_reduce and backward of both, ms "
          "| median | slowest | of | did not restart |")
    print("| --- | --: | --: | --: | --: |")
    for name, each in times.items():
        numbers = "– | –"
        if each:
            numbers = f"{1e3 * statistics.median(each):.0f} | {1e3 * max(each):.0f}"
        print(f"| {name} | {numbers} | {len(each)} | {hung[name]} |")
    for name, job in jobs.items():
        if job.memory:
            print(f"\nThe parent ({name}): {job.memory}.")


if __name__ == "__main__":
    main()
