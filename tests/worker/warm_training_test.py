#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random kills of a PyTorch training with warm workers: warm_training_test.py CPPRUN.

Two ranks train with DDP over gloo and save every few steps, on a machine that is busy otherwise.
Again and again a worker, the warm parent or cpprun itself is killed, or the parent is stopped. Then
no process may be left over, no rank may run twice, no line of output may be lost, and every loss
has to be that of an undisturbed run, to the last digit.

WARM_KILLS=N: N kills instead of a few. WARM_SEED: other kills. WARM_BUSY: busy processes beside it.
"""

import collections
import glob
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

CPPRUN = os.path.abspath(sys.argv.pop(1))
KILLS = int(os.environ.get("WARM_KILLS", "3"))
TIMEOUT = int(os.environ.get("WARM_TIMEOUT", "300"))
# Of a hundred kills.
CHANCES = {"worker": 62, "both workers": 10, "parent": 10, "stopped parent": 8, "cpprun": 10}
WORKERS = 2

TRAINING = """
import fcntl, os, sys, time
is_forked = "torch" in sys.modules
place, rank = os.environ["PLACE"], os.environ["RANK"]
parts = os.environ["TORCHELASTIC_ERROR_FILE"].split("/")
attempt = f"{parts[-5]}.{parts[-3]}"  # logs0.attempt_3
# Held until this process ends.
lock = open(f"{place}/lock.{rank}", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(f"{place}/rank {rank} runs twice", "w").close()
with open(f"{place}/pids", "a") as file:
    file.write(f"{attempt} {rank} {os.getpid()} {int(is_forked)}\\n")
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(7)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=.05, momentum=.9)
saved, step = f"{place}/saved", 0
if os.path.exists(saved):
    state = torch.load(saved)
    step = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
count = os.open(f"{place}/count.{attempt}.{rank}", os.O_WRONLY | os.O_CREAT)
steps = int(os.environ["STEPS"])
lines = 0
while True:
    is_last = torch.tensor([float(steps and step >= steps or os.path.exists(f"{place}/stop"))])
    dist.all_reduce(is_last)
    # By now both ranks have printed that step: a step that was saved is not repeated.
    if rank == "0" and step % 5 == 0 and lines:
        torch.save({"step": step, "model": model.state_dict(),
                    "optimizer": optimizer.state_dict()}, saved + ".new")
        os.replace(saved + ".new", saved)
    if is_last:
        break
    rows = torch.Generator().manual_seed(1000 * step + int(rank))
    x = torch.randn(32, 16, generator=rows)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    print(f"step {step} {loss.item()!r}", flush=True)
    lines += 1
    os.pwrite(count, b"%d" % lines, 0)
    if not steps and lines > 50:
        time.sleep(.05)  # while a kill is prepared: the undisturbed run has to make all these steps
if rank == "0":
    with open(f"{place}/steps", "w") as file:
        file.write(str(step))
dist.destroy_process_group()
"""


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_alive(pid):
    """A killed process keeps its files and locks until its last thread has ended."""
    if state_of(pid) not in "ZX":
        return True
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended meanwhile
    # Otherwise the next wait for steps may still find it alive, and end before the new attempt.
    wait_until(lambda: not is_alive(pid), lambda: f"{pid} is still alive")


def wait_until(holds, what):
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"timeout: {what()}")
        time.sleep(0.002)


class Training:
    """Its directory, and the cppruns that run it, one after the other."""

    def __init__(self, place, flags=(), steps=0):
        self.place = place
        self.flags = flags
        self.steps = steps
        os.mkdir(place)
        self.script = os.path.join(place, "train.py")
        with open(self.script, "w") as file:
            file.write(TRAINING)
        self.parents = []
        self.lines = []
        self.cppruns = 0

    def start(self):
        own = {key: value for key, value in os.environ.items() if not key.startswith("PET_")}
        own.update(PYTHON_EXEC=sys.executable, CPPRUN_LOG_LEVEL="debug", PLACE=self.place,
                   STEPS=str(self.steps), OMP_NUM_THREADS="1")
        self.parents_before = len(self.parents)
        # A log directory for each, so that no attempt has the name of an earlier one.
        logs = os.path.join(self.place, f"logs{self.cppruns}")
        self.cppruns += 1
        self.process = subprocess.Popen(
            [CPPRUN, "--standalone", f"--nproc-per-node={WORKERS}", "--max-restarts=100000",
             "--shutdown-timeout=10", "--redirects=1", f"--log-dir={logs}", *self.flags,
             self.script],
            env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            found = re.search(r"process that forks workers \(pid (\d+)\) is ready", line)
            if found:
                self.parents.append(int(found[1]))
            self.lines.append(line.rstrip("\n"))

    def ended(self, times=1):
        code = self.process.wait(times * TIMEOUT)
        self.reader.join()
        self.process.stderr.close()
        return code

    def said(self):
        return "\n".join(self.lines[-40:])

    def pids(self):
        """[attempt, rank, pid, whether it was forked] of all workers so far."""
        try:
            with open(os.path.join(self.place, "pids")) as file:
                return [line.split() for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def alive(self):
        return {row[1]: int(row[2]) for row in self.pids() if is_alive(int(row[2]))}

    def await_steps(self, count):
        """The ranks of the last attempt have both made so many steps; returns their pids."""
        def has_made(row):
            name = os.path.join(self.place, f"count.{row[0]}.{row[1]}")
            try:
                with open(name) as file:
                    return int(file.read() or "0") >= count
            except FileNotFoundError:
                return False
        found = []

        def holds():
            rows = self.pids()
            if not rows:
                return False
            found[:] = [row for row in rows if row[0] == rows[-1][0] and is_alive(int(row[2]))]
            return len(found) == WORKERS and all(map(has_made, found))
        wait_until(holds, lambda: f"{count} steps of both ranks\n{self.said()}")
        return [int(row[2]) for row in found]

    def output(self):
        """The lines of each worker's log, by "logs0.attempt_3" and rank."""
        logs = {}
        for path in glob.glob(os.path.join(self.place, "logs*", "*", "*", "*", "stdout.log")):
            parts = path.split(os.sep)
            with open(path) as file:
                logs[f"{parts[-5]}.{parts[-3]}", parts[-2]] = file.read().splitlines()
        return logs

    def await_parent(self):
        wait_until(lambda: len(self.parents) > self.parents_before, self.said)


class WarmTraining(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.directory = holder.name

    def kill(self, training, kind, chance):
        """Returns whether cpprun was started again."""
        pids = training.await_steps(chance.randrange(1, 40))
        parents = [each for each in training.parents if is_alive(each)]
        if kind == "both workers":
            for each in pids:
                end(each)
        elif kind == "cpprun":
            relatives = [*training.alive().values(), *parents]
            training.process.kill()
            training.ended()
            wait_until(lambda: not any(map(is_alive, relatives)),
                       lambda: f"left over: {[each for each in relatives if is_alive(each)]}")
            training.start()
            return True
        elif kind == "worker" or not parents:
            end(chance.choice(pids))
        else:
            parent = parents[-1]
            stops = kind == "stopped parent"
            os.kill(parent, signal.SIGSTOP if stops else signal.SIGKILL)
            wait_until(lambda: state_of(parent) in ("T" if stops else "ZX"), training.said)
            training.parents_before = len(training.parents)
            end(chance.choice(pids))
            training.await_steps(1)
            if stops and is_alive(parent):
                os.kill(parent, signal.SIGCONT)
            elif chance.random() < 0.5:
                training.await_parent()
        return False

    def test_random_kills(self):
        # The machine is busy.
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range(int(os.environ.get("WARM_BUSY", "2")))]
        for each in busy:
            self.addCleanup(each.wait)
            self.addCleanup(each.kill)
        training = Training(os.path.join(self.directory, "killed"), ["--warm"])
        training.start()
        self.addCleanup(lambda: training.process.kill())
        chance = random.Random(int(os.environ.get("WARM_SEED", "1")))
        kinds = chance.choices(list(CHANCES), list(CHANCES.values()), k=KILLS)
        kinds[:3] = ["worker", "parent", "cpprun"][:KILLS]  # in a short run as well
        is_new = True
        for number, kind in enumerate(kinds):
            if KILLS > 20:
                sys.stderr.write(f"{time.strftime('%T')} kill {number}: {kind}\n")
            if is_new:  # what follows is to be warm
                training.await_parent()
            is_new = self.kill(training, kind, chance)
        training.await_steps(10)  # beyond all that was repeated
        with open(os.path.join(training.place, "stop"), "w"):
            pass
        self.assertEqual(training.ended(), 0, training.said())
        self.assertEqual(glob.glob(os.path.join(training.place, "rank *")), [])
        rows = training.pids()
        self.assertEqual([row for row in rows if is_alive(int(row[2]))], [])
        self.assertEqual([each for each in training.parents if is_alive(each)], [])
        forked = sum(int(row[3]) for row in rows)
        self.assertGreater(forked, 0)
        losses = self.losses_of(training)

        with open(os.path.join(training.place, "steps")) as file:
            steps = int(file.read())
        calm = Training(os.path.join(self.directory, "calm"), steps=steps)
        calm.start()
        self.addCleanup(lambda: calm.process.kill())
        # All steps at once, on the same busy machine.
        self.assertEqual(calm.ended(times=10), 0, calm.said())
        wanted = self.losses_of(calm)
        self.assertEqual(sorted(losses), sorted(wanted))
        self.assertEqual({key: (loss, wanted[key]) for key, loss in losses.items()
                          if loss != wanted[key]}, {})
        counted = collections.Counter(kinds)
        sys.stderr.write(f"{KILLS} kills ({dict(counted)}): {forked} of {len(rows)} workers were "
                         f"forked; {steps} steps, the same losses\n")

    def losses_of(self, training):
        """By rank and step. Each log has at least the lines that its worker has counted."""
        losses = {}
        for (attempt, rank), lines in training.output().items():
            name = os.path.join(training.place, f"count.{attempt}.{rank}")
            if os.path.exists(name):
                with open(name) as file:
                    self.assertGreaterEqual(len(lines), int(file.read() or "0"), name)
            for line in lines:
                word, step, loss = line.split()
                self.assertEqual(word, "step")
                self.assertEqual(losses.setdefault((rank, int(step)), loss), loss,
                                 f"rank {rank}, step {step} of {attempt}")
        return losses


if __name__ == "__main__":
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        print("warm_training_test.py: skipped: no PyTorch")
        WarmTraining.test_random_kills = unittest.skip("no PyTorch")(WarmTraining.test_random_kills)
    unittest.main(argv=sys.argv[:1])
