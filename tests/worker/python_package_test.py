#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package against the finished program: python_package_test.py CPPRUN PACKAGES."""

import argparse
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

CPPRUN, PACKAGES = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path.insert(0, PACKAGES)

import cpprun  # noqa: E402
from cpprun import _launch  # noqa: E402

ENVIRONMENT = dict(os.environ, PYTHONPATH=PACKAGES, NO_COLOR="1",
                   PATH=os.path.dirname(CPPRUN) + os.pathsep + os.environ["PATH"])
TWO = ["--standalone", "--nproc-per-node=2"]


def python(*words, **options):
    return subprocess.run([sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=120, **options)


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def script(self, text):
        path = os.path.join(self.directory, "train.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def await_file(self, name):
        path = os.path.join(self.directory, name)
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def await_end(self, pid):
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)


class LaunchTest(Case):
    def test_the_module_runs_workers_with_its_python(self):
        path = self.script("import os, sys\n"
                           "sys.stdout.write(f\"rank {os.environ['RANK']} {sys.executable}\\n\")")
        ended = python("-m", "cpprun", *TWO, path)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for rank in range(2):
            self.assertIn(f"rank {rank} {sys.executable}", ended.stdout)

    def test_the_module_has_the_exit_code_of_the_job(self):
        ended = python("-m", "cpprun", "--standalone", self.script("import sys; sys.exit(7)"))
        self.assertEqual(ended.returncode, 7, ended.stderr)

    def test_a_job_that_fails_raises_its_exit_code(self):
        path = self.script("import sys; sys.exit(5)")
        ended = python("-c", "import cpprun, sys\n"
                       f"try: cpprun.run(['--standalone', {path!r}])\n"
                       "except cpprun.JobFailed as failed: print('code', failed.exit_code)")
        self.assertIn("code 5", ended.stdout, ended.stderr)

    def test_run_returns_when_the_job_has_succeeded(self):
        path = self.script("print('trained')")
        ended = python("-c", f"import cpprun; cpprun.run(['--standalone', {path!r}]); print('end')")
        self.assertEqual(ended.stdout.split(), ["trained", "end"], ended.stderr)

    def test_arguments_of_torchrun_become_a_command_line(self):
        args = argparse.Namespace(
            nnodes="2", nproc_per_node="gpu", rdzv_id="none", rdzv_endpoint="a:1", node_rank=1,
            max_restarts=3, module=True, standalone=False, log_dir=None, local_ranks_filter="",
            duplicate_stdout_filters=["a", "b"], other="unknown", training_script="train",
            training_script_args=["--lr", 0.1])
        self.assertEqual(_launch._command_line(args), [
            "--nnodes=2", "--nproc-per-node=gpu", "--rdzv-endpoint=a:1", "--max-restarts=3",
            "--duplicate-stdout-filters=a,b", "--node-rank=1", "--module", "train", "--lr", "0.1"])
        args = argparse.Namespace(nnodes="2", node_rank=0, training_script="train",
                                  training_script_args=[])
        self.assertEqual(_launch._command_line(args), ["--nnodes=2", "--node-rank=0", "train"])

    def test_arguments_of_torchruns_own_parser_are_accepted(self):
        said = python("-c", "import torch.distributed.run as run; import cpprun._launch as launch\n"
                      "words = ['--standalone', '--nproc_per_node=2', '-m', 'a.b', '--x', '1']\n"
                      "print(launch._command_line(run.parse_args(words)))\n"
                      "print(launch._command_line(run.parse_args(['train.py'])))")
        if "No module named 'torch'" in said.stderr:
            self.skipTest("this Python has no torch")
        self.assertEqual(said.stdout.splitlines(), [
            "['--nproc-per-node=2', '--standalone', '--module', 'a.b', '--x', '1']",
            "['train.py']"], said.stderr)

    def test_a_signal_is_forwarded_and_the_worker_may_save(self):
        path = self.script(
            "import os, signal, sys, time\n"
            "here = os.path.dirname(__file__)\n"
            "def save(*_): open(here + '/saved', 'w').close(); sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, save)\n"
            "with open(here + '/made', 'w') as file: file.write(str(os.getpid()))\n"
            "os.rename(here + '/made', here + '/up')\n"
            "time.sleep(600)\n")
        parent = subprocess.Popen(
            [sys.executable, "-c", f"import cpprun; cpprun.run(['--standalone', {path!r}])"],
            env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        pid = self.await_file("up")
        parent.send_signal(signal.SIGTERM)
        _, said = parent.communicate(timeout=120)
        self.assertIn("exit code 143", said)
        self.assertTrue(os.path.exists(os.path.join(self.directory, "saved")))
        self.await_end(pid)

    def test_sigusr1_reaches_the_workers_unless_the_program_handles_it(self):
        path = self.script(
            "import os, signal, sys, time\n"
            "here = os.path.dirname(__file__)\n"
            "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))\n"
            "with open(here + '/made', 'w') as file: file.write(str(os.getpid()))\n"
            "os.rename(here + '/made', here + '/up')\n"
            "time.sleep(600)\n")
        parent = subprocess.Popen(
            [sys.executable, "-c", f"import cpprun; cpprun.run(['--standalone', {path!r}])"],
            env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        pid = self.await_file("up")
        parent.send_signal(signal.SIGUSR1)
        _, said = parent.communicate(timeout=120)
        self.assertEqual(parent.returncode, 0, said)
        self.await_end(pid)
        ended = python("-c", "import cpprun, os, signal\n"
                       "signal.signal(signal.SIGUSR1, lambda *_: print('own handler'))\n"
                       "cpprun.run(['--standalone', '--no-python', 'sh', '-c',\n"
                       "            f'kill -USR1 {os.getpid()}'])")
        self.assertEqual(ended.stdout, "own handler\n", ended.stderr)

    def test_a_handler_in_c_is_kept(self):
        ended = python("-c", "import cpprun, faulthandler, os, signal\n"
                       "faulthandler.register(signal.SIGUSR1)\n"
                       "cpprun.run(['--standalone', '--no-python', 'true'])\n"
                       "os.kill(os.getpid(), signal.SIGUSR1); print('alive', flush=True)")
        self.assertEqual(ended.stdout, "alive\n", ended.stderr)
        self.assertIn("most recent call first", ended.stderr)

    def test_under_nohup_a_closed_terminal_ends_nothing(self):
        path = self.script("import os, signal, sys\n"
                           "os.kill(int(sys.argv[1]), signal.SIGHUP)\n"
                           "print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)")
        ended = python("-c", "import cpprun, os, signal\n"
                       "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
                       f"cpprun.run(['--standalone', {path!r}, str(os.getpid())]); print('alive')")
        self.assertEqual(ended.stdout.split(), ["True", "alive"], ended.stderr)

    def test_nothing_is_left_when_the_python_process_that_started_it_is_killed(self):
        path = self.script(
            "import os, time\n"
            "here = os.path.dirname(__file__)\n"
            "with open(here + '/made', 'w') as file: file.write(str(os.getpid()))\n"
            "os.rename(here + '/made', here + '/up')\n"
            "time.sleep(600)\n")
        parent = subprocess.Popen(
            [sys.executable, "-c", f"import cpprun; cpprun.run(['--standalone', {path!r}])"],
            env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        pid = self.await_file("up")
        parent.kill()
        parent.wait()
        self.await_end(pid)

    def test_a_missing_program_is_named(self):
        said = subprocess.run([sys.executable, "-m", "cpprun"], capture_output=True, text=True,
                              env=dict(ENVIRONMENT, PATH="/nowhere"), timeout=60)
        if said.returncode == 0 or "neither" not in said.stderr:
            self.skipTest("this Python's environment has cpprun installed")
        self.assertIn("cpprun: error: the program cpprun is neither in ", said.stderr)

    def test_a_single_string_is_not_a_command_line(self):
        with self.assertRaises(TypeError):
            cpprun.run("train.py")


HEARTBEAT = """
import os, struct, sys
import cpprun
{body}
with open(os.environ["CPPRUN_HEARTBEAT_FILE"], "rb") as file:
    print("RECORD", file.read().hex())
"""


class HeartbeatTest(Case):
    def record(self, body):
        ended = python("-m", "cpprun", "--standalone", self.script(HEARTBEAT.format(body=body)))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        line = next(each for each in ended.stdout.splitlines() if each.startswith("RECORD "))
        names = ("magic", "version", "rank", "pid", "saved_at", "heartbeats", "time", "step",
                 "samples", "checkpoint")
        return dict(zip(names, struct.unpack_from("=8sIiiIQqQQQ", bytes.fromhex(line.split()[1]))))

    def test_steps_and_checkpoints_are_written(self):
        found = self.record("cpprun.beat(1); cpprun.beat(2, samples=64); cpprun.saved(2)")
        self.assertEqual((found["magic"], found["version"], found["rank"]), (b"CPPRUNHB", 2, 0))
        self.assertEqual((found["heartbeats"], found["step"], found["samples"]), (2, 2, 64))
        self.assertEqual(found["checkpoint"], 2)
        self.assertLess(abs(found["time"] / 1e9 - found["saved_at"]), 2)

    def test_calls_count_without_steps(self):
        found = self.record("for _ in range(3): cpprun.beat()")
        self.assertEqual((found["heartbeats"], found["step"]), (3, 0))

    def test_a_wrong_step_ends_no_training(self):
        found = self.record("for bad in (float('nan'), -1, 2**80, 'x', None): cpprun.beat(bad)\n"
                            "cpprun.saved(float('inf'))")
        self.assertEqual((found["heartbeats"], found["step"], found["checkpoint"]), (5, 0, 0))

    def test_many_threads_lose_no_heartbeat(self):
        found = self.record(
            "import threading\n"
            "def work(): [cpprun.beat() for _ in range(1000)]\n"
            "threads = [threading.Thread(target=work) for _ in range(8)]\n"
            "[each.start() for each in threads]; [each.join() for each in threads]")
        self.assertEqual(found["heartbeats"], 8000)

    def test_a_signal_handler_may_report_a_checkpoint_in_the_middle_of_a_heartbeat(self):
        found = self.record("import signal\n"
                            "signal.signal(signal.SIGUSR1, lambda *_: cpprun.saved(3))\n"
                            "with cpprun._heartbeat._of_this_process().lock:\n"
                            "    os.kill(os.getpid(), signal.SIGUSR1)\n"
                            "cpprun.beat(4)")
        self.assertEqual((found["checkpoint"], found["step"]), (3, 4))

    def test_a_forked_process_does_not_write_for_its_worker(self):
        found = self.record("cpprun.beat(5)\n"
                            "if os.fork() == 0: cpprun.beat(9); os._exit(0)\n"
                            "os.wait()")
        self.assertEqual((found["heartbeats"], found["step"]), (1, 5))

    def test_a_file_that_cannot_be_written_is_reported_once(self):
        ended = subprocess.run(
            [sys.executable, "-c", "from cpprun import beat, saved; beat(1); beat(2); saved(2)"],
            env=dict(ENVIRONMENT, CPPRUN_HEARTBEAT_FILE="/nowhere/file", RANK="3"),
            capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr.count("rank 3: heartbeats are off: cannot write"), 1)

    def test_outside_a_job_nothing_happens(self):
        threads = [threading.Thread(target=cpprun.beat, args=(1,)) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        cpprun.saved(1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
