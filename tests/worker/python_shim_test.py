#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed.run and torchrun replaced by cpprun: python_shim_test.py CPPRUN PACKAGES.

Most cases use a torch of a few lines, which has torch's interface and imports in no time. The last
class uses the real one: that of this Python, or of the repository's .venv.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

CPPRUN, PACKAGES = (os.path.abspath(path) for path in sys.argv[1:3])
REPOSITORY = os.path.dirname(os.path.dirname(PACKAGES))
VARIABLES = {name: value for name, value in os.environ.items()
             if not name.startswith(("CPPRUN_", "PET_", "PYTHON"))}

RUN = '''
from argparse import ArgumentParser, REMAINDER

def get_args_parser():
    parser = ArgumentParser()
    parser.add_argument("--nnodes", default="1:1")
    parser.add_argument("--nproc-per-node", "--nproc_per_node", default="1")
    parser.add_argument("--standalone", action="store_true")
    parser.add_argument("-m", "--module", action="store_true")
    parser.add_argument("--no-python", "--no_python", action="store_true")
    parser.add_argument("training_script")
    parser.add_argument("training_script_args", nargs=REMAINDER)
    return parser

def parse_args(args):
    return get_args_parser().parse_args(args)

def run(args):
    print("PyTorch's own run", args.training_script)

def main(args=None):
    run(parse_args(args))

if __name__ == "__main__":
    main()
'''
LAUNCH = '''
from torch.distributed.run import get_args_parser, run

def main(args=None):
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true")
    run(parser.parse_args(args))

if __name__ == "__main__":
    main()
'''
TORCHRUN = '''#!{python}
import sys
from torch.distributed.run import main
if __name__ == "__main__":
    sys.exit(main())
'''
WORKER = '''
import os, sys
started = "cpprun" if "CPPRUN_NODE_TOKEN" in os.environ else "another program"
sys.stdout.write(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}, started by {started}, "
                 f"{sys.argv[1:]}\\n")
'''
TWO = ["--standalone", "--nproc-per-node=2"]
# What a program that calls torchrun in-process does.
CALL = ("import torch.distributed.run as run\n"
        "run.run(run.parse_args({words!r})); print('returned')")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def make_executable(path):
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


class Environment:
    """A virtual environment with the cpprun program, which may have its own copy of the package."""

    def __init__(self, directory, creator=sys.executable):
        self.directory = directory
        subprocess.run([creator, "-m", "venv", "--without-pip", directory], check=True, timeout=120)
        self.scripts = os.path.join(directory, "bin")
        self.program = os.path.join(self.scripts, "cpprun")
        self.interpreter = os.path.join(self.scripts, "python")
        self.paths = [PACKAGES]
        os.symlink(CPPRUN, self.program)
        self.site = self.python("-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
                                ).stdout.strip()
        self.pth = os.path.join(self.site, "cpprun_torchrun.pth")

    def add_torch(self):
        package = os.path.join(self.site, "torch")
        write(os.path.join(package, "__init__.py"), "")
        write(os.path.join(package, "distributed", "__init__.py"), "")
        write(os.path.join(package, "distributed", "run.py"), RUN)
        write(os.path.join(package, "distributed", "launch.py"), LAUNCH)
        self.torchrun = make_executable(write(os.path.join(self.scripts, "torchrun"),
                                              TORCHRUN.format(python=self.interpreter)))

    def command(self, *words, first=None, timeout=120, cwd=None, **variables):
        path = [*([first] if first else []), self.scripts, VARIABLES["PATH"]]
        return subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, cwd=cwd,
            stdin=subprocess.DEVNULL,
            env=dict(VARIABLES, PYTHONPATH=os.pathsep.join(self.paths), NO_COLOR="1",
                     PATH=os.pathsep.join(path), OMP_NUM_THREADS="1", **variables))

    def python(self, *words, **options):
        return self.command(self.interpreter, *words, **options)

    def shim(self, *words, **options):
        return self.python("-m", "cpprun.shim", *words, **options)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.python = Environment(os.path.join(cls.temporary.name, "environment"))
        cls.python.add_torch()
        cls.worker = write(os.path.join(cls.temporary.name, "train.py"), WORKER)

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def script(self, text):
        return write(os.path.join(self.directory, "script.py"), text)

    def expect_two_workers(self, ended, arguments="[]"):
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for rank in range(2):
            self.assertIn(f"rank {rank} of 2, started by cpprun, {arguments}\n", ended.stdout)
        self.assertNotIn("PyTorch's own run", ended.stdout)


class HookTest(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        installed = cls.python.shim("install")
        if installed.returncode != 0:
            raise AssertionError(installed.stderr)

    def test_it_loads_no_other_module_when_python_starts(self):
        ended = subprocess.run(
            [sys.executable, "-I", "-c",
             f"import os, sys; sys.path.insert(0, {PACKAGES!r}); before = set(sys.modules)\n"
             "import cpprun._torchrun; print(sorted(set(sys.modules) - before))"],
            capture_output=True, text=True, timeout=60, env=VARIABLES)
        self.assertEqual(ended.stdout, "['cpprun', 'cpprun._torchrun']\n", ended.stderr)

    def test_a_program_that_calls_run_starts_cpprun_and_continues(self):
        ended = self.python.python("-c", CALL.format(words=[*TWO, self.worker, "--lr=1"]))
        self.expect_two_workers(ended, "['--lr=1']")
        self.assertTrue(ended.stdout.endswith("returned\n"), ended.stdout)

    def test_a_program_that_calls_main_starts_cpprun(self):
        ended = self.python.python(
            "-c", f"import torch.distributed.run as run; run.main({[*TWO, self.worker]!r})")
        self.expect_two_workers(ended)

    def test_the_module_run_as_a_program_starts_cpprun(self):
        self.expect_two_workers(
            self.python.python("-m", "torch.distributed.run", *TWO, self.worker, "a"), "['a']")

    def test_the_older_module_run_as_a_program_passes_the_local_rank(self):
        words = ["-m", "torch.distributed.launch", "--standalone"]
        ended = self.python.python(*words, self.worker)
        self.assertIn("rank 0 of 1, started by cpprun, ['--local-rank=0']", ended.stdout)
        ended = self.python.python(*words, "--use-env", self.worker)
        self.assertIn("rank 0 of 1, started by cpprun, []", ended.stdout)

    def test_the_torchrun_that_comes_with_torch_starts_cpprun(self):
        self.expect_two_workers(self.python.command("torchrun", *TWO, self.worker))

    def test_a_module_is_run_as_a_module(self):
        ended = self.python.python("-m", "torch.distributed.run", *TWO, "-m", "train", "b",
                                   PYTHON_EXEC=make_executable(write(
                                       os.path.join(self.directory, "python"),
                                       f"#!/bin/sh\ncd {self.temporary.name}\n"
                                       f"exec {self.python.interpreter} \"$@\"\n")))
        self.expect_two_workers(ended, "['b']")

    def test_a_job_that_fails_ends_the_program_with_its_code_and_no_traceback(self):
        path = self.script("import sys; sys.exit(5)")
        for words in (["-c", CALL.format(words=["--standalone", path])],
                      ["-m", "torch.distributed.run", "--standalone", path]):
            ended = self.python.python(*words)
            self.assertEqual(ended.returncode, 5, ended.stderr)
            self.assertIn("Root Cause", ended.stderr)
            self.assertNotIn("Traceback", ended.stderr)
            self.assertNotIn("returned", ended.stdout)

    def test_a_usage_error_ends_the_program_with_2(self):
        ended = self.python.python("-m", "torch.distributed.run", "--nproc-per-node=0", "train.py")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("cpprun: error: ", ended.stderr)
        self.assertNotIn("Traceback", ended.stderr)

    def test_a_job_that_fails_in_another_thread_raises_an_exception(self):
        path = self.script("import sys; sys.exit(5)")
        ended = self.python.python(
            "-c", "import threading, torch.distributed.run as run\n"
            f"words = ['--standalone', {path!r}]\n"
            "def work():\n"
            "    try: run.main(words)\n"
            "    except Exception as error: print(type(error).__name__, error.exit_code)\n"
            "thread = threading.Thread(target=work); thread.start(); thread.join()")
        self.assertEqual(ended.stdout, "JobFailed 5\n", ended.stderr)

    def test_under_a_scheduler_a_program_gets_the_number_of_workers_it_asked_for(self):
        ended = self.python.python(
            "-c", CALL.format(words=[self.worker]), SLURM_JOB_ID="7", SLURM_PROCID="0",
            SLURM_STEP_ID="0", SLURM_NTASKS="1", SLURM_NNODES="1", SLURM_NODEID="0",
            SLURM_LOCALID="0", SLURM_JOB_NODELIST="localhost", SLURM_GPUS_ON_NODE="4")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("rank 0 of 1, started by cpprun", ended.stdout)

    def test_the_switch_keeps_the_original(self):
        for words in (["-c", CALL.format(words=[*TWO, "train.py"])],
                      ["-m", "torch.distributed.run", "train.py"],
                      ["-m", "torch.distributed.launch", "train.py"]):
            ended = self.python.python(*words, CPPRUN_TORCHRUN="off")
            self.assertIn("PyTorch's own run train.py", ended.stdout, ended.stderr)

    def test_a_wrong_value_of_the_switch_is_a_warning(self):
        ended = self.python.python("-m", "torch.distributed.run", *TWO, self.worker,
                                   CPPRUN_TORCHRUN="no")
        self.expect_two_workers(ended)
        self.assertIn("cpprun: warning: CPPRUN_TORCHRUN=\"no\" is neither on nor off; using on\n",
                      ended.stderr)

    def test_a_worker_that_imports_the_module_is_not_changed_by_it(self):
        path = self.script("import torch.distributed.run as run, inspect, sys\n"
                           "print(run.parse_args(['--nnodes=3', 'a.py', 'b']).nnodes,\n"
                           "      'def get_args_parser' in inspect.getsource(run),\n"
                           "      run.__name__, run.__file__ == run.__spec__.origin)")
        ended = self.python.python("-m", "torch.distributed.run", "--standalone", path)
        self.assertEqual(ended.stdout, "3 True torch.distributed.run True\n", ended.stderr)

    def test_a_worker_may_start_a_job_of_its_own(self):
        path = self.script("import subprocess, sys\n"
                           "sys.exit(subprocess.call([sys.executable, '-m', 'torch.distributed.run'"
                           f", *{TWO!r}, {self.worker!r}]))")
        self.expect_two_workers(
            self.python.python("-m", "torch.distributed.run", "--standalone", path))

    def test_a_function_in_place_of_a_script_is_rejected(self):
        ended = self.python.python(
            "-c", "import torch.distributed.run as run\n"
            "args = run.parse_args(['train.py']); args.training_script = lambda: 0; run.run(args)")
        self.assertEqual(ended.returncode, 2)
        self.assertEqual(
            ended.stderr, "cpprun: error: torch.distributed.run.run(): training_script is a "
            "function, neither a path nor the name of a module\n"
            "  hint: set CPPRUN_TORCHRUN=off to use PyTorch's own launcher\n")

    def test_a_program_that_calls_the_module_again_is_rejected(self):
        os.unlink(self.python.program)
        self.addCleanup(os.symlink, CPPRUN, self.python.program)
        make_executable(write(self.python.program, f"#!/bin/sh\nexec {self.python.interpreter} "
                              "-m torch.distributed.run \"$@\"\n"))
        self.addCleanup(os.unlink, self.python.program)
        ended = self.python.python("-m", "torch.distributed.run", *TWO, self.worker)
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stderr.count("cpprun: error: "), 1, ended.stderr)
        self.assertIn(f"cpprun: error: {self.python.program} is not the cpprun program: it calls "
                      "torch.distributed.run again\n", ended.stderr)
        rejected = self.python.shim("install")
        self.assertEqual(rejected.returncode, 1)
        self.assertIn("is not the cpprun program", rejected.stderr)

    def test_another_hook_that_asks_all_finders_causes_no_recursion(self):
        ended = self.python.python(
            "-c", "import sys\n"
            "class Other:\n"
            "    busy = False\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        found = [each.find_spec(name, path) for each in sys.meta_path\n"
            "                 if each is not self]\n"
            "        return next(filter(None, found), None)\n"
            "sys.meta_path.insert(0, Other())\n" + CALL.format(words=[*TWO, self.worker]))
        self.expect_two_workers(ended)

    def test_python_starts_as_before_if_the_package_is_gone(self):
        kept, self.python.paths = self.python.paths, []
        try:
            ended = self.python.python("-m", "torch.distributed.run", "train.py")
        finally:
            self.python.paths = kept
        self.assertEqual((ended.stdout, ended.stderr), ("PyTorch's own run train.py\n", ""))


class ShimTest(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.python.shim, "remove")
        self.link = os.path.join(self.directory, "torchrun")

    def expect_error(self, ended, text, hint):
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertEqual(ended.stderr, f"cpprun: error: {text}\n  hint: {hint}\n")
        self.assertEqual(ended.stdout, "")
        self.assertFalse(os.path.exists(self.python.pth))

    def test_install_writes_a_file_and_remove_removes_it(self):
        installed = self.python.shim("install")
        self.assertEqual(installed.stderr, "")
        self.assertEqual(installed.stdout, f"wrote {self.python.pth}: torch.distributed.run of "
                         "this Python starts cpprun\n")
        self.assertIn("cpprun, because of", self.python.shim("status").stdout)
        self.assertEqual(self.python.shim("remove").stdout, f"removed {self.python.pth}\n")
        self.assertIn("PyTorch's own; to use cpprun: ", self.python.shim("status").stdout)
        self.assertEqual(self.python.shim("remove").stdout, "nothing to remove\n")

    def test_a_directory_gets_a_torchrun_that_is_cpprun(self):
        installed = self.python.shim("install", self.directory, first=self.directory)
        self.assertEqual((installed.returncode, installed.stderr), (0, ""))
        self.assertEqual(os.readlink(self.link), self.python.program)
        self.expect_two_workers(
            self.python.command(self.link, *TWO, self.worker, first=self.directory))
        removed = self.python.shim("remove")
        self.assertEqual(removed.stdout, f"removed {self.link}\nremoved {self.python.pth}\n")
        self.assertFalse(os.path.lexists(self.link))

    def test_install_may_be_repeated(self):
        for _ in range(2):
            self.assertEqual(self.python.shim("install", self.directory).returncode, 0)
        self.assertEqual(self.python.shim("install").returncode, 0)
        self.assertEqual(read(self.python.pth).count(json.dumps(self.link)), 1)

    def test_a_link_to_a_removed_cpprun_is_replaced(self):
        os.symlink("/nowhere/cpprun", self.link)
        self.assertEqual(self.python.shim("install", self.directory).returncode, 0)
        self.assertEqual(os.readlink(self.link), self.python.program)

    def test_a_directory_that_is_not_first_on_path_is_noted(self):
        self.assertIn(f"cpprun: note: torchrun is still {self.python.torchrun}\n"
                      f"  hint: export PATH={self.directory}:$PATH\n",
                      self.python.shim("install", self.directory).stderr)

    def test_a_missing_directory_is_an_error(self):
        missing = os.path.join(self.directory, "bin")
        self.expect_error(self.python.shim("install", missing), f"{missing} is not a directory",
                          f"mkdir -p {missing}")

    def test_the_torchrun_of_torch_is_not_overwritten(self):
        write(self.link, TORCHRUN)
        self.expect_error(self.python.shim("install", self.directory),
                          f"{self.link} is PyTorch's own torchrun; it was not changed",
                          "use another directory, and put it first on PATH")
        self.assertEqual(read(self.link), TORCHRUN)

    def test_a_file_of_another_program_is_not_overwritten(self):
        write(self.link, "#!/bin/sh\n")
        self.expect_error(self.python.shim("install", self.directory),
                          f"{self.link} exists and was not made by cpprun; it was not changed",
                          "use another directory, and put it first on PATH")
        self.assertEqual(read(self.link), "#!/bin/sh\n")

    def test_the_directory_where_pip_installs_torchrun_is_rejected(self):
        self.expect_error(self.python.shim("install", self.python.scripts),
                          f"{self.python.scripts} is where pip installs PyTorch's own torchrun",
                          "use another directory, and put it first on PATH")

    def test_a_directory_that_cannot_be_written_is_an_error(self):
        ended = self.python.shim("install", "/proc")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("cpprun: error: cannot create /proc/torchrun: ", ended.stderr)
        self.assertIn("  hint: use a directory that you can write to\n", ended.stderr)

    def test_site_packages_that_cannot_be_written_are_an_error(self):
        # Even root cannot create a file in a directory that is a file.
        moved = self.python.site + ".moved"
        os.rename(self.python.site, moved)
        self.addCleanup(os.rename, moved, self.python.site)
        write(self.python.site, "")
        self.addCleanup(os.unlink, self.python.site)
        self.expect_error(self.python.shim("install"),
                          f"cannot write {self.python.pth}: Not a directory",
                          "use a virtual environment that you can write to, or run this as the "
                          f"owner of {self.python.site}")

    def test_a_pth_file_of_another_origin_is_not_overwritten(self):
        write(self.python.pth, "# mine\n")
        self.addCleanup(os.unlink, self.python.pth)
        ended = self.python.shim("install")
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"{self.python.pth} exists and was not written by cpprun", ended.stderr)
        self.assertEqual(self.python.shim("remove").stdout, "nothing to remove\n")
        self.assertEqual(read(self.python.pth), "# mine\n")

    def test_remove_leaves_a_link_that_another_program_has_replaced(self):
        self.python.shim("install", self.directory)
        os.unlink(self.link)
        write(self.link, "#!/bin/sh\n")
        removed = self.python.shim("remove", self.directory)
        self.assertEqual(removed.stdout, f"removed {self.python.pth}\n")
        self.assertEqual(removed.stderr, f"cpprun: note: {self.link} is not a link to cpprun; "
                         "it was not changed\n")
        self.assertTrue(os.path.exists(self.link))

    def test_a_python_without_torch_is_noted(self):
        torch = os.path.join(self.python.site, "torch")
        os.rename(torch, torch + ".moved")
        self.addCleanup(os.rename, torch + ".moved", torch)
        installed = self.python.shim("install")
        self.assertEqual(installed.returncode, 0)
        self.assertIn("has no torch; the .pth file has no effect until you install it",
                      installed.stderr)
        self.assertIn("has no torch", self.python.shim("status").stdout)

    def test_a_program_of_another_version_is_noted(self):
        packages = os.path.join(self.directory, "packages")
        shutil.copytree(os.path.join(PACKAGES, "cpprun"), os.path.join(packages, "cpprun"))
        write(os.path.join(packages, "cpprun-99.9.dist-info", "METADATA"),
              "Metadata-Version: 2.1\nName: cpprun\nVersion: 99.9\n")
        kept, self.python.paths = self.python.paths, [packages]
        try:
            installed = self.python.shim("install")
        finally:
            self.python.paths = kept
        self.assertEqual(installed.returncode, 0)
        self.assertRegex(installed.stderr, rf"cpprun: note: {self.python.program} has version "
                         r"[0-9.]+, this package has version 99\.9\n  hint: pip install ")

    def test_status_names_what_is_used(self):
        self.python.shim("install", self.directory)
        lines = self.python.shim("status", self.directory).stdout.splitlines()
        self.assertRegex(lines[0], rf"^cpprun +{self.python.program} \([0-9.]+\)$")
        self.assertRegex(lines[1], rf"^torchrun +{self.python.torchrun}, PyTorch's own script")
        self.assertRegex(lines[2], rf"^torchrun in DIR +{self.link}, a link to ")
        self.assertRegex(lines[3], r"^torch\.distributed\.run +cpprun, because of ")
        off = self.python.shim("status", CPPRUN_TORCHRUN="off").stdout
        self.assertIn("PyTorch's own, because of CPPRUN_TORCHRUN=off", off)

    def test_an_unknown_command_is_an_error(self):
        ended = self.python.shim("instal")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("cpprun: error: ", ended.stderr)


REDUCE = '''
import os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(value)
started = "cpprun" if "CPPRUN_NODE_TOKEN" in os.environ else "another program"
sys.stdout.write(f"rank {dist.get_rank()}, sum {value.item()}, started by {started}\\n")
dist.destroy_process_group()
'''
REAL = {"GLOO_SOCKET_IFNAME": "lo", "timeout": 280}  # three processes import torch


def python_with_torch():
    for each in (sys.executable, os.path.join(REPOSITORY, ".venv", "bin", "python")):
        if os.access(each, os.X_OK):
            found = subprocess.run(
                [each, "-c", "import importlib.util; found = importlib.util.find_spec('torch')\n"
                 "print(found and found.origin or '')"],
                capture_output=True, text=True, timeout=60, env=VARIABLES).stdout.strip()
            if found:
                return each, os.path.dirname(os.path.dirname(found))
    return None


class RealTorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = python_with_torch()
        if found is None:
            print("skipped: neither this Python nor .venv has torch", flush=True)
            raise unittest.SkipTest("neither this Python nor .venv has torch")
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.python = Environment(os.path.join(cls.temporary.name, "environment"), found[0])
        write(os.path.join(cls.python.site, "real_torch.pth"), found[1] + "\n")
        cls.worker = write(os.path.join(cls.temporary.name, "reduce.py"), REDUCE)
        installed = cls.python.shim("install")
        if installed.stderr:
            raise AssertionError(installed.stderr)

    def expect_sums(self, ended, program):
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(sorted(each for each in ended.stdout.splitlines() if "sum" in each),
                         [f"rank {rank}, sum 3, started by {program}" for rank in range(2)])

    def test_the_module_run_as_a_program_reduces_as_the_original_does(self):
        words = ["-m", "torch.distributed.run", *TWO, self.worker]
        self.expect_sums(self.python.python(*words, **REAL), "cpprun")
        self.expect_sums(self.python.python(*words, CPPRUN_TORCHRUN="off", **REAL),
                         "another program")

    def test_its_parser_and_its_launcher_for_functions_are_unchanged(self):
        ended = self.python.python(
            "-c", "import inspect, torch.distributed.run as run\n"
            "from torch.distributed.launcher import api\n"
            "print(api.elastic_launch.__module__, api.launch_agent.__module__,\n"
            "      run.elastic_launch is api.elastic_launch, run.run.__module__,\n"
            "      run.main.__module__, flush=True)\n"
            f"run.run(run.parse_args(['--standalone', {self.worker!r}]))", **REAL)
        self.assertEqual(ended.stdout.splitlines(), [
            "torch.distributed.launcher.api torch.distributed.launcher.api True cpprun._torchrun "
            "cpprun._torchrun", "rank 0, sum 1, started by cpprun"], ended.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
