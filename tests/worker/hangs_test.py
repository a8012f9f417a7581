#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hangs of real PyTorch scripts, and what cpprun says about them.

    hangs_test.py CPPRUN [--cpp=DDP_WORKER] [KIND...]

staged_hang.py hangs in one way after another, on one node or on two, and so does ddp_worker in C++.
The verdict in the report has to name the rank and the place, at most 5 s after the timeout. Without
KINDs, a few of them, and a few of the other cases.

- HANGS_ALL=1: all cases, which takes six minutes.
- HANGS_TABLE=1 also runs them under torchrun, and prints a table of what both say.
- HANGS_CLEAN=MINUTES runs quiet_training.py instead, for so long: trainings that only look hung.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

CPPRUN = os.path.abspath(sys.argv.pop(1))
WORKER = None
if sys.argv[1:] and sys.argv[1].startswith("--cpp="):
    WORKER = os.path.abspath(sys.argv.pop(1)[len("--cpp="):])
HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "staged_hang.py")
QUIET = os.path.join(HERE, "quiet_training.py")
TIMEOUT = 3
RANKS = 3
ODD = RANKS - 2
TORCHRUN_TIMEOUT = 45  # of the process group, so that there is something to compare
CLEAN_TIMEOUT = 10
FREEZER = "/sys/fs/cgroup/freezer"

# Of each kind: the ranks that may be blamed, the kind of the verdict, and words in its sentence.
KINDS = {
    "stuck_function": ({ODD}, "missing", ["stuck_function", "staged_hang.py"]),
    "busy_loop": ({ODD}, "missing", ["busy_loop"]),
    "polling_loop": ({ODD}, "missing", ["polling_loop"]),
    "taken_lock": ({ODD}, "missing", ["taken_lock"]),
    "two_locks_in_opposite_order": ({ODD}, "missing", ["waits for a lock in take"]),
    "gil_held_in_c": ({ODD}, "missing", ["GIL"]),
    "stopped_process": ({ODD}, "stopped", ["stopped"]),
    "frozen_process": ({ODD}, "disk", ["uninterruptible sleep"]),
    "uninterruptible_sleep": ({ODD}, "missing", ["for child"]),
    "empty_pipe": ({ODD}, "missing", ["empty_pipe"]),
    "silent_peer": ({ODD}, "missing", ["silent_peer"]),
    "empty_queue": ({ODD}, "missing", ["empty_queue"]),
    "long_sleep": ({ODD}, "missing", ["long_sleep"]),
    "child_process": ({ODD}, "missing", ["child_process", "sleep"]),
    "child_that_fills_its_pipe": ({ODD}, "missing", ["child_that_fills_its_pipe", "(yes, "]),
    "child_that_uses_the_store": ({ODD}, "missing", ["child_that_uses_the_store"]),
    "multiprocessing_child": ({ODD}, "missing", ["multiprocessing_child"]),
    "data_loader": ({ODD}, "missing", ["data_loader"]),
    "file_lock": ({ODD}, "missing", ["file_lock"]),
    "failed_thread": ({ODD}, "missing", ["failed_thread"]),
    "stuck_executor": ({ODD}, "missing", ["stuck_executor"]),
    "thread_that_outlives_main": ({ODD}, "missing", ["_shutdown"]),
    "missing_key": ({ODD}, "missing", ["missing_key"]),
    "pending_operation": ({ODD}, "missing", ["stuck_function"]),
    "different_collectives": ({ODD}, "mismatch", ["broadcast", "all_reduce"]),
    "different_shapes": ({ODD}, "mismatch", ["already in barrier", "still in all_reduce"]),
    "skipped_collective": ({ODD}, None, []),
    "opposite_order": (set(range(RANKS)), "opposite_order", ["opposite_order"]),
    "group_that_one_rank_does_not_create": (
        {0}, "missing", ["group_that_one_rank_does_not_create"]),
    "subgroup": ({ODD}, "missing", ["stuck_function"]),
    "receive_without_send": ({ODD}, "missing", ["stuck_function"]),
    "checkpoint_of_rank_0": ({0}, "missing", ["checkpoint_to_a_pipe_without_reader"]),
    "before_the_group": ({ODD}, "odd_one_out", ["stuck_function"]),
}
CPP_KINDS = {
    "taken_lock": ({ODD}, "missing", ["waits for a lock in", "taken_lock"]),
    "empty_pipe": ({ODD}, "missing", ["waits for input in", "empty_pipe"]),
    "different_collectives": ({ODD}, "mismatch", ["broadcast", "all_reduce"]),
}
# On two nodes with two ranks each: the odd rank is the first one of the second node.
ON_TWO_NODES = ["stuck_function", "stopped_process", "gil_held_in_c", "data_loader",
                "different_collectives", "opposite_order", "checkpoint_of_rank_0"]
NODES_ODD = 2

# Of quiet_training.py.
PHASES = ["long_step", "long_operation", "compilation", "checkpoint_of_rank_0",
          "validation_on_rank_0", "preparation_in_python",
          "data_loading_processes", "data_loading_thread", "waiting_for_a_slow_download"]

FEW = ["Hangs.test_stuck_function", "Hangs.test_gil_held_in_c", "Hangs.test_different_collectives",
       "Hangs.test_opposite_order", "Hangs.test_two_nodes_stuck_function",
       "Hangs.test_cpp_taken_lock", "Timeouts.test_with_stderr_in_files",
       "Timeouts.test_a_stopped_process", "Probe", "Memory"]


class TwoNodes:
    """Two network namespaces and a cable. Without permission, `why_not` tells."""

    def __init__(self):
        self.names = [f"hang{os.getpid()}{each}" for each in "ab"]
        self.why_not = ""
        commands = [f"netns add {self.names[0]}", f"netns add {self.names[1]}",
                    f"-n {self.names[0]} link add cable type veth peer cable netns {self.names[1]}"]
        for number, name in enumerate(self.names):
            commands += [f"-n {name} addr add 10.79.0.{number + 1}/24 dev cable",
                         f"-n {name} link set cable up", f"-n {name} link set lo up"]
        for command in commands:
            ended = subprocess.run(["ip", *command.split()], capture_output=True, text=True)
            if ended.returncode != 0:
                self.why_not = ended.stderr.strip()
                self.remove()
                return

    def on(self, node, words):
        return ["ip", "netns", "exec", self.names[node], *words]

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Running:
    """A launcher, and when it printed what on stderr."""

    def __init__(self, words, variables):
        self.lines = []
        self.mark = os.urandom(8).hex().encode()
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, errors="replace",
            env={**os.environ, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1",
                 "HANG_MARK": self.mark.decode(), **variables})
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append((time.time(), line.rstrip("\n")))

    def wait(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # and it ends its workers
            self.process.wait(60)
        self.end_what_is_left()
        self.reader.join()
        self.process.stderr.close()
        return self.process.returncode

    def end_what_is_left(self):
        """torchrun leaves processes that its workers have started."""
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as environment:
                    if self.mark in environment.read():
                        os.kill(int(name), signal.SIGKILL)
            except OSError:
                pass

    def text(self):
        return "\n".join(line for _, line in self.lines)

    def first(self, pattern):
        """When a line with that pattern came, and the line."""
        for at, line in self.lines:
            if re.search(pattern, line):
                return at, line
        return None, ""


class Freezer:
    """A control group of the freezer, if a kind needs one. Thaws when the verdict is there."""

    def __init__(self, kind):
        self.path = None
        if kind != "frozen_process":
            return
        path = os.path.join(FREEZER, f"cpprun_staged_{os.getpid()}")
        try:
            os.mkdir(path)
            with open(os.path.join(path, "freezer.state")):
                self.path = path
        except OSError as error:
            print(f"skipped: no freezer of control groups v1: {error}", flush=True)
            raise unittest.SkipTest("no freezer") from error

    def variables(self):
        return {"HANG_FREEZER": self.path} if self.path else {}

    def thaw_after(self, running, pattern):
        if self.path is None:
            return
        while running.process.poll() is None and running.first(pattern)[0] is None:
            running.reader.join(0.05)
        with open(os.path.join(self.path, "freezer.state"), "w") as state:
            state.write("THAWED")

    def remove(self):
        if self.path is not None:
            os.rmdir(self.path)


class Hangs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def path(self, name):
        return os.path.join(self.directory, name)

    def flags(self, report):
        return [f"--hang-timeout={TIMEOUT}", "--shutdown-timeout=1",
                f"--log-dir={self.path('logs')}", f"--report={self.path(report)}"]

    def check(self, title, running, expected, ranks, program):
        """The report of node 0, and the console of the node with the culprit."""
        first, of_culprit = running[0], running[-1]
        began = os.stat(self.path("began")).st_mtime
        with open(self.path("report.json")) as file:
            found = json.load(file)
        self.assertIsNotNone(found["hang"], first.text())
        self.assertEqual(found["root"]["cause"], "no_progress", first.text())
        hang = found["hang"]
        verdict_at, _ = first.first("the job is hung")
        after = verdict_at - began
        if os.environ.get("HANGS_TABLE"):
            self.print_row(title, after, hang["verdict"], program)
        blamed, name, words = expected
        self.assertIn(hang["rank"], blamed, first.text())
        if name is not None:
            self.assertEqual(hang["kind"], name, first.text())
        for word in words:
            self.assertIn(word, hang["verdict"], first.text())
        self.assertLess(hang["quiet"], TIMEOUT + 5)
        self.assertIn("the job is hung", of_culprit.text())
        self.assertIn(f"rank {hang['rank']}", of_culprit.text())
        stacks = ""
        for directory, _, files in os.walk(self.path("logs")):
            for file in files:
                if file.startswith("stacks-"):
                    with open(os.path.join(directory, file)) as stack_file:
                        stacks += stack_file.read()
        for rank in range(ranks):
            self.assertIn(f"rank {rank}", stacks)

    def print_row(self, title, after, verdict, program):
        variables = {"HANG_GROUP_TIMEOUT": str(TORCHRUN_TIMEOUT), "HANG_BEGAN": self.path("again")}
        said = "not run"
        if "--no-python" not in program and "two nodes" not in title:
            torchrun = Running(
                [sys.executable, "-m", "torch.distributed.run", "--standalone",
                 f"--nproc-per-node={RANKS}", *program], variables)
            torchrun.wait(TORCHRUN_TIMEOUT + 120)
            began = os.stat(self.path("again")).st_mtime
            at, _ = torchrun.first("Root Cause")
            root = re.search(r"Root Cause.*?rank +: (\d+)", torchrun.text(), re.DOTALL)
            said = "nothing"
            if root:
                message = re.findall(rf"rank{root[1]}\]: \w*Error: (?:\[.*?\] ?)?(.*)",
                                     torchrun.text())
                said = f"{at - began:.0f} s: rank {root[1]}: {message[-1] if message else ''}"
        sys.stderr.write(f"\n| {title} | {after:.1f} s | {verdict} | {said} |\n")

    def hang(self, kind, program, expected, title):
        freezer = Freezer(kind)
        self.addCleanup(freezer.remove)
        running = Running(
            [CPPRUN, "--standalone", f"--nproc-per-node={RANKS}", *self.flags("report.json"),
             *program, kind],
            {"HANG_BEGAN": self.path("began"), **freezer.variables()})
        freezer.thaw_after(running, "the job is hung")
        self.assertNotEqual(running.wait(120), 0, running.text())
        self.check(title, [running], expected, RANKS, [*program, kind])

    def hang_on_two_nodes(self, kind):
        nodes = TwoNodes()
        if nodes.why_not:
            print(f"skipped: no permission to make network namespaces: {nodes.why_not}", flush=True)
            self.skipTest(nodes.why_not)
        self.addCleanup(nodes.remove)
        variables = {"HANG_BEGAN": self.path("began"), "GLOO_SOCKET_IFNAME": "cable"}
        running = [
            Running(nodes.on(node, [
                CPPRUN, "--nnodes=2", "--nproc-per-node=2", f"--node-rank={node}",
                "--master-addr=10.79.0.1", *self.flags(f"report.json{node or ''}"), SCRIPT, kind]),
                variables)
            for node in (0, 1)]
        for each in running:
            self.assertNotEqual(each.wait(120), 0, each.text())
        blamed, name, words = KINDS[kind]
        blamed = {NODES_ODD if rank == ODD else rank for rank in blamed}
        if kind == "opposite_order":
            blamed = set(range(4))
        self.check(f"{kind}, two nodes", running, (blamed, name, words), 4, [SCRIPT, kind])


class Clean(unittest.TestCase):
    def quiet(self, phase):
        seconds = float(os.environ["HANGS_CLEAN"]) * 60
        running = Running([CPPRUN, "--standalone", "--nproc-per-node=2",
                           f"--hang-timeout={CLEAN_TIMEOUT}", QUIET, phase, str(seconds)], {})
        code = running.wait(2 * seconds + 600)
        sys.stderr.write(f"{phase}: exit code {code}, "
                         f"{running.text().count('no progress from any')} notes\n")
        self.assertEqual(code, 0, running.text())
        self.assertNotIn("the job is hung", running.text())


class Timeouts(unittest.TestCase):
    """PyTorch's own timeout strikes, and no --hang-timeout is set."""

    def time_out(self, *flags, kind="stuck_function", cause="peer_silent", ranks=RANKS):
        with tempfile.TemporaryDirectory() as directory:
            report = os.path.join(directory, "report.json")
            run = subprocess.run(
                [CPPRUN, "--standalone", f"--nproc-per-node={ranks}", "--shutdown-timeout=1",
                 f"--report={report}", *flags, SCRIPT, kind],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                env={**os.environ, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1",
                     "HANG_GROUP_TIMEOUT": "4"})
            with open(report) as file:
                found = json.load(file)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(found["root"]["cause"], cause, run.stderr)
        self.assertIsNotNone(found["hang"], run.stderr)
        self.assertTrue(found["hang"]["timeout"])
        self.assertEqual(found["hang"]["rank"], ranks - 2, run.stderr)
        self.assertIn("cpprun: error: a process group of PyTorch timed out", run.stderr)
        self.assertIn("cpprun: hint: see the verdict above", run.stderr)
        return found["hang"]

    def test_with_the_probe(self):
        hang = self.time_out("--probe=on")
        self.assertIn("stuck_function (staged_hang.py", hang["verdict"])
        self.assertIn("all_reduce (step, staged_hang.py", " ".join(hang["clusters"]))

    def test_without_the_probe(self):
        self.time_out()

    def test_with_stderr_in_files(self):
        with tempfile.TemporaryDirectory() as logs:
            hang = self.time_out("--probe=on", "--redirects=3", f"--log-dir={logs}")
        self.assertIn("stuck_function (staged_hang.py", hang["verdict"])
        self.assertIn("all_reduce (step, staged_hang.py", " ".join(hang["clusters"]))

    def test_before_the_group(self):
        hang = self.time_out("--probe=on", kind="before_the_group", cause="peer_missing")
        self.assertIn("stuck_function (staged_hang.py", hang["verdict"])

    def test_a_stopped_process(self):
        self.assertEqual(self.time_out("--probe=on", kind="stopped_process")["kind"], "stopped")


CHILD_FIRST = """
import os, subprocess, sys, threading
if os.environ["RANK"] == "1":
    child = "import torch.distributed, time; print(flush=True); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE).stdout.readline()
import torch.distributed
def wait_here():
    threading.Event().wait()
wait_here()
"""


class Probe(unittest.TestCase):
    def test_a_child_that_imports_torch_before_its_worker(self):
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "train.py")
            with open(script, "w") as file:
                file.write(CHILD_FIRST)
            report = os.path.join(directory, "report.json")
            run = subprocess.run(
                [CPPRUN, "--standalone", "--nproc-per-node=2", f"--hang-timeout={TIMEOUT}",
                 "--shutdown-timeout=1", f"--report={report}", script],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                env={**os.environ, "PYTHON_EXEC": sys.executable, "OMP_NUM_THREADS": "1"})
            with open(report) as file:
                hang = json.load(file)["hang"]
        self.assertIsNotNone(hang, run.stderr)
        self.assertEqual(hang["clusters"],
                         ["2 ranks (0-1): wait for a lock in wait_here (train.py:8)"])


WITHOUT_TORCH = """
import ctypes, os, signal, sys, threading
def wait_for_others():
    threading.Event().wait()
def fetch_next_shard():
    {"gil": lambda: ctypes.PyDLL(None).sleep(1000), "stop": lambda: signal.raise_signal(19),
     "lock": threading.Event().wait}[sys.argv[1]]()
fetch_next_shard() if os.environ["RANK"] == "1" else wait_for_others()
"""


def new_python():
    """One whose memory can be read: 3.13 or 3.14."""
    found = [sys.executable, shutil.which("python3.14"), shutil.which("python3.13"),
             *glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[34].*/bin/python3"))]
    check = "import sys; sys.exit(not (3, 13) <= sys.version_info[:2] <= (3, 14))"
    for each in filter(None, found):
        if subprocess.run([each, "-c", check], capture_output=True).returncode == 0:
            return each
    return None


class Memory(unittest.TestCase):
    """Python 3.13 or newer, without the probe and without PyTorch."""

    def hang(self, kind):
        python = new_python()
        if python is None:
            print("skipped: no Python 3.13 or 3.14", flush=True)
            self.skipTest("no Python 3.13 or 3.14")
        with tempfile.TemporaryDirectory() as directory:
            script = os.path.join(directory, "train.py")
            with open(script, "w") as file:
                file.write(WITHOUT_TORCH)
            report = os.path.join(directory, "report.json")
            run = subprocess.run(
                [CPPRUN, "--standalone", "--nproc-per-node=3", f"--hang-timeout={TIMEOUT}",
                 "--probe=off", "--shutdown-timeout=1", f"--report={report}", script, kind],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                env={**os.environ, "PYTHON_EXEC": python})
            with open(report) as file:
                hang = json.load(file)["hang"]
        self.assertIsNotNone(hang, run.stderr)
        self.assertEqual(hang["rank"], 1, run.stderr)
        self.assertIn("2 ranks (0,2): wait for a lock in wait_for_others (train.py:4)",
                      hang["clusters"])
        return hang["verdict"]

    def test_a_lock(self):
        self.assertIn("rank 1 waits for a lock in fetch_next_shard (train.py:", self.hang("lock"))

    def test_the_gil_held_in_c(self):
        self.assertIn("rank 1 holds the GIL in C code called from <lambda> (train.py:6)",
                      self.hang("gil"))

    def test_a_stopped_process(self):
        self.assertIn("rank 1 is stopped by a signal while in <lambda> (train.py:6)",
                      self.hang("stop"))


for each in KINDS:
    setattr(Hangs, f"test_{each}",
            lambda self, kind=each: self.hang(kind, [SCRIPT], KINDS[kind], kind))
for each in ON_TWO_NODES:
    setattr(Hangs, f"test_two_nodes_{each}", lambda self, kind=each: self.hang_on_two_nodes(kind))
for each in CPP_KINDS if WORKER else []:
    setattr(Hangs, f"test_cpp_{each}",
            lambda self, kind=each: self.hang(kind, ["--no-python", WORKER, "hang"],
                                              CPP_KINDS[kind], f"{kind}, C++"))
for each in PHASES:
    setattr(Clean, f"test_{each}", lambda self, phase=each: self.quiet(phase))


def chosen():
    case = Clean if os.environ.get("HANGS_CLEAN") else Hangs
    known = [name[5:] for name in vars(case) if name.startswith("test_")]
    if not sys.argv[1:] and case is Hangs and not os.environ.get("HANGS_ALL"):
        return [name for name in FEW if WORKER or "_cpp_" not in name]
    names = [f"{case.__name__}.test_{kind}" for kind in sys.argv[1:] or known if kind in known]
    return names if sys.argv[1:] or case is Clean else [*names, "Timeouts", "Probe", "Memory"]


if __name__ == "__main__":
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        print("hangs_test.py: skipped: no PyTorch")
        sys.exit(0)
    unittest.main(argv=sys.argv[:1] + chosen())
