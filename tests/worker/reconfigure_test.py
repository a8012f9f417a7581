#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Workers that survive the loss of others (--on-failure=reconfigure):
reconfigure_test.py CPPRUN [--cpp=PROGRAM].

Runs worker/examples/python/reconfigure.py and kills workers and nodes; then the same with
worker/examples/reconfigure.cpp, which is PROGRAM. With PyTorch 2.14 and later, process groups
change their members; with older versions and in C++, they are created anew in the same processes.
RECONFIGURE_KILLS=N: N random kills instead of a few. RECONFIGURE_SEED: other kills.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

CPPRUN = os.path.abspath(sys.argv.pop(1))
CPP = next((os.path.abspath(each[6:]) for each in sys.argv[1:] if each.startswith("--cpp=")), "")
sys.argv[1:] = [each for each in sys.argv[1:] if not each.startswith("--cpp=")]
KILLS = int(os.environ.get("RECONFIGURE_KILLS", "3"))
TIMEOUT = 180
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, "worker", "examples", "python", "reconfigure.py")
FLAGS = ["--on-failure=reconfigure", "--max-restarts=100"]


class Job:
    """A cpprun whose output is read while it runs."""

    def __init__(self, *arguments, environment=None):
        own = {key: value for key, value in os.environ.items() if not key.startswith("PET_")}
        own.update(PYTHON_EXEC=sys.executable, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
                   PYTHONPATH=os.path.join(ROOT, "worker", "python"))
        self.process = subprocess.Popen([CPPRUN, *arguments], env={**own, **(environment or {})},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        self.lines, self.changed = [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            # Python runs unbuffered (-u), so print() writes the end of a line by itself, and the
            # line of another rank may come before it.
            parts = re.split(r"(?=rank \d+ of \d+ has process |step \d+ loss )", line.rstrip("\n"))
            with self.changed:
                self.lines += filter(None, parts)
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)
            self.changed.notify_all()

    def await_lines(self, pattern, count=1, after=0):
        """The matches of the first `count` lines after line `after`, and where the next one is."""
        found, at = [], after
        with self.changed:
            while len(found) < count:
                if not self.changed.wait_for(lambda: len(self.lines) > at, TIMEOUT):
                    raise AssertionError(f"{pattern} does not come:\n" + self.text())
                if self.lines[at] is None:
                    raise AssertionError(f"{pattern} did not come:\n" + self.text())
                match = re.search(pattern, self.lines[at])
                at += 1
                if match:
                    found.append(match)
        return found, at

    def text(self):
        return "\n".join(line for line in self.lines if line is not None)

    def end(self):
        code = self.process.wait(TIMEOUT)
        self.reader.join(TIMEOUT)
        self.process.stdout.close()
        return code

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.end()


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def losses_of(*texts):
    """By step. A step may have been done again."""
    losses = {}
    for text in texts:
        for step, loss in re.findall(r"^step (\d+) loss (\S+)$", text, re.MULTILINE):
            losses.setdefault(int(step), []).append(float(loss))
    return losses


class Both:
    """What holds for Python and C++."""

    EXAMPLE = EXAMPLE
    PLACE = r"rank (\d+) of (\d+) has process (\d+), completed steps: (\d+)"

    @classmethod
    def setUpClass(cls):
        job = Job("--standalone", "--nproc-per-node=4", cls.EXAMPLE, "--steps=120")
        assert job.end() == 0, job.text()
        cls.undisturbed = losses_of(job.text())
        assert len(cls.undisturbed) == 120

    def start(self, *arguments, **more):
        job = Job(*arguments, **more)
        self.addCleanup(job.kill)
        return job

    def check_losses(self, losses):
        """Sums of other ranks, or of DDP's first step, are done in another order."""
        self.assertEqual(sorted(losses), sorted(self.undisturbed))
        for step, each in losses.items():
            for loss in each:
                self.assertAlmostEqual(loss, self.undisturbed[step][0], 9, f"step {step}")

    def places(self, job, count, after=0):
        found, at = job.await_lines(self.PLACE, count, after)
        places = {int(each[1]): (int(each[2]), int(each[3]), int(each[4])) for each in found}
        self.assertEqual(len(places), count, "two workers have one rank")
        return places, at

    def test_the_others_keep_their_processes_and_the_losses_are_the_same(self):
        job = self.start("--standalone", "--nproc-per-node=4", *FLAGS, self.EXAMPLE, "--steps=120",
                         "--step-seconds=0.01")
        before, at = self.places(job, 4)
        job.await_lines(r"^step 20 ", after=at)
        os.kill(before[2][1], signal.SIGKILL)
        after, at = self.places(job, 4, at)
        self.assertEqual(job.end(), 0, job.text())
        for rank in (0, 1, 3):
            self.assertEqual(before[rank][1], after[rank][1], job.text())
            self.assertGreater(after[rank][2], 10)
        self.assertNotEqual(before[2][1], after[2][1])
        self.assertEqual(after[2][2], 0)
        self.check_losses(losses_of(job.text()))
        self.assertIn("ranks 0, 1, 3 keep running, waiting for the next round", job.text())

    def test_two_workers_may_fail_at_once_and_one_while_the_others_re_form(self):
        job = self.start("--standalone", "--nproc-per-node=4", *FLAGS, self.EXAMPLE, "--steps=120",
                         "--step-seconds=0.01")
        before, at = self.places(job, 4)
        job.await_lines(r"^step 10 ", after=at)
        os.kill(before[0][1], signal.SIGKILL)
        os.kill(before[3][1], signal.SIGKILL)
        job.await_lines(r"keep running", after=at)
        os.kill(before[1][1], signal.SIGKILL)
        self.assertEqual(job.end(), 0, job.text())
        last = {int(rank): int(pid) for rank, _, pid, _ in re.findall(self.PLACE, job.text())}
        self.assertEqual(last[2], before[2][1])
        self.check_losses(losses_of(job.text()))

    def test_random_kills(self):
        chooser = random.Random(int(os.environ.get("RECONFIGURE_SEED", "4711")))
        kills = jobs = 0
        while kills < KILLS:
            killed = self.kill_some(chooser, KILLS - kills)
            self.assertGreater(killed, 0, "the training ended before a kill")
            kills, jobs = kills + killed, jobs + 1
        if KILLS > 20:
            sys.stderr.write(f"{kills} kills in {jobs} jobs, the same losses in each\n")

    def kill_some(self, chooser, wanted):
        """Kills workers of one job until it has done all its steps; returns how many."""
        job = self.start("--standalone", "--nproc-per-node=4", *FLAGS, self.EXAMPLE, "--steps=120",
                         "--step-seconds=0.02")
        self.places(job, 4)
        killed = []
        for _ in range(wanted):
            pids = {int(rank): int(pid) for rank, _, pid, _ in re.findall(self.PLACE, job.text())}
            pid = pids[chooser.randrange(4)]
            if job.process.poll() is not None:
                break  # the training is over
            if pid not in killed:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    break  # the same
                killed.append(pid)
            try:
                job.await_lines(r"^step \d+ ", chooser.randrange(1, 8), after=len(job.lines))
            except AssertionError:
                break  # the same
        self.assertEqual(job.end(), 0, job.text())
        self.check_losses(losses_of(job.text()))
        for _, _, pid, _ in re.findall(self.PLACE, job.text()):
            self.assertTrue(has_ended(pid), f"process {pid} is an orphan")
        return len(killed)

    def test_a_worker_that_does_not_answer_is_ended_and_started_again(self):
        job = self.start("--standalone", "--nproc-per-node=4", "--shutdown-timeout=1", *FLAGS,
                         self.EXAMPLE, "--steps=120", "--step-seconds=0.01")
        before, at = self.places(job, 4)
        job.await_lines(r"^step 10 ", after=at)
        os.kill(before[1][1], signal.SIGSTOP)
        os.kill(before[2][1], signal.SIGKILL)
        after, _ = self.places(job, 4, at)
        self.assertEqual(job.end(), 0, job.text())
        self.assertEqual(after[0][1], before[0][1])
        self.assertEqual(after[3][1], before[3][1])
        self.assertNotEqual(after[1][1], before[1][1])
        self.check_losses(losses_of(job.text()))

    def test_without_a_restart_left_the_job_ends_and_leaves_nothing_behind(self):
        job = self.start("--standalone", "--nproc-per-node=4", "--on-failure=reconfigure",
                         "--max-restarts=0", self.EXAMPLE, "--steps=100000")
        before, at = self.places(job, 4)
        job.await_lines(r"^step 10 ", after=at)
        os.kill(before[2][1], signal.SIGKILL)
        self.assertEqual(job.end(), 128 + signal.SIGKILL, job.text())
        for _, pid, _ in before.values():
            self.assertTrue(has_ended(pid))

    def test_a_job_shrinks_to_the_nodes_that_are_left(self):
        with socket.socket() as probe:  # taken by the master at once
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = ["--nnodes=2:3", "--nproc-per-node=2", f"--rdzv-endpoint=127.0.0.1:{port}",
                  "--rdzv-backend=c10d", "--rdzv-id=shrinks", "--standby=none"]
        lease = "--rdzv-conf=last_call_timeout=60,keep_alive_interval=0.3,keep_alive_max_attempt=3"
        example = [self.EXAMPLE, "--steps=120", "--step-seconds=0.02"]
        master = self.start(*common, lease + ",is_host=1", *FLAGS, *example)
        others = [self.start(*common, lease + ",is_host=0", *FLAGS, *example) for _ in range(2)]
        jobs = [master, *others]
        places = [self.places(job, 2) for job in jobs]
        self.assertEqual(sorted(rank for each, _ in places for rank in each), list(range(6)))
        master.await_lines(r"^step 20 ")
        os.kill(others[1].process.pid, signal.SIGKILL)
        codes = [job.end() for job in jobs[:2]]
        self.assertEqual(codes, [0, 0], "\n\n".join(job.text() for job in jobs))
        for job, (before, at) in zip(jobs[:2], places[:2]):
            after = {int(rank): (int(size), int(pid)) for rank, size, pid, _ in
                     re.findall(self.PLACE, "\n".join(job.lines[at:-1]))}
            self.assertEqual({pid for _, pid in after.values()},
                             {pid for _, pid, _ in before.values()}, job.text())
            self.assertEqual({size for size, _ in after.values()}, {4})
        self.check_losses(losses_of(*(job.text() for job in jobs)))
        for _, _, pid, _ in re.findall(self.PLACE, others[1].text()):
            self.assertTrue(has_ended(pid))


class Reconfigure(Both, unittest.TestCase):
    def test_an_error_of_a_worker_itself_is_its_failure(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "wrong.py")
            with open(script, "w") as file:
                file.write(textwrap.dedent("""
                    from cpprun.reconfigure import Rounds
                    for place in Rounds("gloo", wait_seconds=0.1):
                        with place:
                            raise ValueError("its own error")
                    """))
            job = self.start("--standalone", "--nproc-per-node=2", "--on-failure=reconfigure",
                             script)
            self.assertEqual(job.end(), 1)
        self.assertIn("ValueError: its own error", job.text())

    def test_an_ordinary_script_is_restarted_as_usual(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "ordinary.py")
            with open(script, "w") as file:
                file.write(textwrap.dedent("""
                    import os, sys
                    count = os.environ["TORCHELASTIC_RESTART_COUNT"]
                    print(f"attempt {count} of rank {os.environ['RANK']}", flush=True)
                    sys.exit(3 if count == "0" and os.environ["RANK"] == "1" else 0)
                    """))
            job = self.start("--standalone", "--nproc-per-node=2", *FLAGS, script)
            self.assertEqual(job.end(), 0, job.text())
        for rank in (0, 1):
            self.assertIn(f"attempt 1 of rank {rank}", job.text())


@unittest.skipUnless(CPP, "no --cpp=PROGRAM")
class ReconfigureCpp(Both, unittest.TestCase):
    EXAMPLE = CPP

    def test_the_losses_are_those_of_python(self):
        job = self.start("--standalone", "--nproc-per-node=4", EXAMPLE, "--steps=10")
        self.assertEqual(job.end(), 0, job.text())
        for step, each in losses_of(job.text()).items():
            self.assertAlmostEqual(each[0], self.undisturbed[step][0], 9, f"step {step}")


if __name__ == "__main__":
    import torch.distributed
    if not torch.distributed.is_gloo_available():
        print("skipped: this PyTorch has no gloo")
        sys.exit(0)
    unittest.main(verbosity=2)
