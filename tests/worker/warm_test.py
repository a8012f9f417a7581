#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Warm workers (--warm) of the finished cpprun: warm_test.py CPPRUN [TEST...].

A worker of the first attempt waits at a gate, a FIFO, which the test opens once cpprun has reported
that the parent is ready, or that it cannot be used. Then the worker fails, and the one that
replaces it does what is tested. WARM_KILLS=N: N random kills instead of a few.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import zipfile

CPPRUN = os.path.abspath(sys.argv.pop(1))
KILLS = int(os.environ.get("WARM_KILLS", "5"))
TIMEOUT = int(os.environ.get("WARM_TIMEOUT", "120"))

# `is_warm`: the module is imported by nothing else.
PRELUDE = """
import os, sys
is_warm = "wsgiref" in sys.modules
is_again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
def wait_at_gate():
    with open(os.environ["GATE"] + os.environ["RANK"]) as gate:
        gate.readline()
if not is_again:
    wait_at_gate()
"""
FAIL_FIRST = PRELUDE + """
if not is_again:
    sys.exit(3)
if __name__ == "__main__":
    sys.stdout.write("warm\\n" if is_warm else "cold\\n")  # by one system call
"""


def joined(first, text):
    return first + textwrap.dedent(text)


class Run:
    """A cpprun whose stderr is read while it runs."""

    def __init__(self, directory, command, workers, environment, cpus, stdin):
        self.gate = os.path.join(directory, "gate")
        self.gates = []
        for rank in range(workers):
            os.mkfifo(self.gate + str(rank))
            self.gates.append(os.open(self.gate + str(rank), os.O_RDWR))
        own = {key: value for key, value in os.environ.items() if not key.startswith("PET_")}
        own.update(PYTHON_EXEC=sys.executable, GATE=self.gate, CPPRUN_LOG_LEVEL="debug")
        self.process = subprocess.Popen(command, cwd=directory, env={**own, **environment},
                                        stdin=stdin, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        preexec_fn=cpus and (
                                            lambda: os.sched_setaffinity(0, cpus)))
        self.lines = []
        self.changed = threading.Condition()
        self.stdout = ""
        self.threads = [threading.Thread(target=self.read_stderr, daemon=True),
                        threading.Thread(target=self.read_stdout, daemon=True)]
        for each in self.threads:
            each.start()

    def read_stderr(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("end of stderr")
            self.changed.notify_all()

    def read_stdout(self):
        self.stdout = self.process.stdout.read()

    def await_line(self, pattern):
        """The match in the first line that has it."""
        def find():
            return next((found for found in (re.search(pattern, line) for line in self.lines)
                         if found), None)
        with self.changed:
            self.changed.wait_for(lambda: find() or "end of stderr" in self.lines, TIMEOUT)
            found = find()
        if found is None:
            raise AssertionError(f"no {pattern!r} in:\n" + "\n".join(self.lines))
        return found

    def await_parent(self):
        return int(self.await_line(r"the process that forks workers \(pid (\d+)\) is ready")[1])

    def open_gates(self):
        for each in self.gates:
            os.write(each, b"\n")

    def end(self):
        code = self.process.wait(TIMEOUT)
        for each in self.threads:
            each.join()
        for each in self.gates:
            os.close(each)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def notes(self):
        return [line for line in self.lines if "--warm" in line and "is ready" not in line]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Warm(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.directory = self.holder.name
        os.mkdir(self.path("modules"))
        self.environment = {"PYTHONPATH": self.path("modules")}

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(textwrap.dedent(text))
        return self.path(name)

    def start(self, script, *flags, modules="wsgiref", workers=1, program=None, cpus=None,
              stdin=subprocess.DEVNULL):
        """With more workers than CPUs, the first ones are forked as well. Otherwise the parent is
        started after 2 s."""
        if script is not None:
            self.write("train.py", script)
        command = [CPPRUN, "--standalone", f"--nproc-per-node={workers}", f"--warm={modules}",
                   "--max-restarts=1", "--shutdown-timeout=5", *flags, *(program or ["train.py"])]
        run = Run(self.directory, command, workers, self.environment, cpus, stdin)
        self.addCleanup(run.process.kill)  # where the test has failed before its end
        return run

    def run_again(self, script, *flags, **options):
        """Runs it until its second attempt has ended."""
        run = self.start(script, *flags, **options)
        run.await_parent()
        run.open_gates()
        run.code = run.end()
        return run

    def check_cold(self, run, *words):
        """The second attempt was executed as usual, and there is one note that says why."""
        self.assertEqual(run.code, 0, "\n".join(run.lines))
        self.assertIn("cold", run.stdout)
        self.assertNotIn("warm", run.stdout)
        self.assertEqual(len(run.notes()), 1, run.lines)
        for word in words:
            self.assertIn(word, run.notes()[0])

    # --- the same as under exec ------------------------------------------------------------------

    STATE = joined(PRELUDE, """
    import ctypes, json, multiprocessing, resource, signal, threading, __main__
    def status(*names):
        with open("/proc/self/status") as file:
            return [line for line in file if line.startswith(names)]
    def read(path):
        with open(path, "rb") as file:
            return file.read().replace(b"\\0", b" ").strip().decode()
    death = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(death))
    changing = ("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_ERROR_FILE", "CPPRUN_HEARTBEAT_FILE")
    state = dict(
        argv=sys.argv, path=sys.path, flags=str(sys.flags), executable=sys.executable,
        orig_argv=getattr(sys, "orig_argv", None), xoptions=sys._xoptions,
        main={name: value if isinstance(value, str) else type(value).__name__
              for name, value in vars(__main__).items() if name.startswith("__")},
        environment={name: value for name, value in os.environ.items() if name not in changing},
        descriptors=[os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in range(3)],
        open=len(os.listdir("/proc/self/fd")),
        signals=status("SigBlk", "SigIgn", "SigCgt", "Threads", "Cpus_allowed_list"),
        comm=read("/proc/self/comm"), command=read("/proc/self/cmdline"),
        cgroup=read("/proc/self/cgroup"), limits=read("/proc/self/limits"),
        leads=os.getsid(0) == os.getpgid(0) == os.getpid(), parent=os.getppid(),
        nice=os.nice(0), umask=os.umask(0o022), directory=os.getcwd(), death=death.value,
        streams=[(each.encoding, each.errors, each.line_buffering, each.mode, each.name,
                  each.isatty()) for each in (sys.stdin, sys.stdout, sys.stderr)],
        main_thread=threading.main_thread() is threading.current_thread(),
        interrupt=str(signal.getsignal(signal.SIGINT)),
        limit=sys.getrecursionlimit(), key=len(multiprocessing.current_process().authkey))
    with open(os.environ["GATE"] + ".state" + str(int(is_again)), "w") as file:
        json.dump(state, file)
    sys.exit(0 if is_again else 3)
    """)

    def check_state(self, *flags, program):
        run = self.run_again(self.STATE, *flags, program=program)
        self.assertEqual(run.code, 0, "\n".join(run.lines))
        self.assertEqual(run.notes(), [])
        states = []
        for attempt in "01":
            with open(f"{run.gate}.state{attempt}") as file:
                states.append(json.load(file))
        states[1] = json.loads(json.dumps(states[1]).replace("/attempt_1/", "/attempt_0/"))
        for name, value in states[0].items():
            self.assertEqual(value, states[1][name], name)

    def test_script_state(self):
        self.check_state("--log-dir=logs", "--redirects=3", program=["./train.py", "a", "b c"])

    def test_state_with_options_of_python(self):
        """What -O, -B and some of -X set."""
        self.environment.update(PYTHONOPTIMIZE="2", PYTHONDONTWRITEBYTECODE="1", PYTHONUTF8="1",
                                PYTHONFAULTHANDLER="1", PYTHONTRACEMALLOC="3")
        self.check_state("--log-dir=logs", "--redirects=3", program=["./train.py", "a"])

    def test_module_state(self):
        self.check_state("--log-dir=logs", "--tee=3", "--probe=on", "-m",
                         program=["train", "--x=1"])

    ENDS = {
        "code": "sys.exit(7)",
        "text": "sys.exit('that is the end')",
        "exception": "def f():\n    raise ValueError('1\\n2')\nf()",
        "cause": "try:\n    {}['k']\nexcept KeyError as e:\n    raise RuntimeError from e",
        "interrupt": "raise KeyboardInterrupt",
        "signal": "os.kill(os.getpid(), 11)",
        "hook": "sys.excepthook = lambda *a: print('hook', a[0], a[2].tb_lineno)\n1 / 0",
        "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\n"
                  "t.join()\nsys.exit(4)",
        "exit_handler": "import atexit\natexit.register(print, 'at exit', file=sys.stderr)\n"
                        "raise SystemExit(9)",
    }

    def test_ends(self):
        """Exit statuses, and all that is printed at the end, are those of Python itself."""
        names = list(self.ENDS)
        for name, text in self.ENDS.items():
            self.write(name + ".py", text + "\n")
        script = f"""
            import os, sys
            attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            if "GATE" in os.environ:
                with open(os.environ["GATE"] + ".warm", "a") as file:
                    print("wsgiref" in sys.modules, file=file)
                if attempt == 0:
                    open(os.environ["GATE"] + "0").readline()
            name = {names}[attempt] + ".py"
            exec(compile(open(name).read(), name, "exec"))
            """
        run = self.run_again(textwrap.dedent(script), "--log-dir=logs", "--redirects=3",
                             "--events=events.json", f"--max-restarts={len(names) - 1}")
        self.assertEqual(run.notes(), [])
        with open(run.gate + ".warm") as file:
            self.assertEqual(file.read().split(), ["False"] + ["True"] * (len(names) - 1))
        with open(self.path("events.json")) as file:
            events = [json.loads(line) for line in file]
        ends = [each for each in events if each["event"] == "worker_exited"]
        logs = self.path("logs", os.listdir(self.path("logs"))[0])
        for attempt, name in enumerate(names):
            with self.subTest(name):
                python = subprocess.run(
                    [sys.executable, "-u", "train.py"], cwd=self.directory, text=True,
                    capture_output=True, stdin=subprocess.DEVNULL,
                    env={**os.environ, "TORCHELASTIC_RESTART_COUNT": str(attempt)})
                signalled = ends[attempt]["signal"]
                code = -signal.Signals[signalled] if signalled else ends[attempt]["exit_code"]
                self.assertEqual(code, python.returncode)
                for stream, text in (("stdout", python.stdout), ("stderr", python.stderr)):
                    path = os.path.join(logs, f"attempt_{attempt}", "0", f"{stream}.log")
                    with open(path) as file:
                        found = file.read()
                    varying = r"0x[0-9a-f]+"
                    self.assertEqual(re.sub(varying, "", found), re.sub(varying, "", text))

    def test_first_round(self):
        """With fewer CPUs than workers, the first ones are forked as well."""
        run = self.start(
            "import sys\nsys.stdout.write(f\"{'wsgiref' in sys.modules}\\n\")", workers=2, cpus={0})
        self.assertEqual(run.end(), 0, "\n".join(run.lines))
        self.assertEqual(run.stdout, "True\nTrue\n")
        self.assertEqual(run.notes(), [])

    def test_script_that_reads_stdin(self):
        """Every worker reads cpprun's stdin, from where the one before has stopped."""
        with open(self.write("input", "first\nagain\n")) as given:
            run = self.run_again("import os\nline = os.read(0, 6).decode()\n" + FAIL_FIRST
                                 + "if is_again:\n    sys.stdout.write(line)\n", stdin=given)
        self.assertEqual((run.code, run.stdout), (0, "warm\nagain\n"), "\n".join(run.lines))

    def test_spawned_and_forked_children(self):
        run = self.run_again(joined(FAIL_FIRST, """
            import multiprocessing, pickle
            class Thing:
                pass
            def work(queue):
                queue.put((type(Thing()).__module__, "wsgiref" in sys.modules))
            if __name__ == "__main__":
                assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
                sys.executable = os.path.realpath(sys.executable)
                for method in ("spawn", "fork", "forkserver"):
                    context = multiprocessing.get_context(method)
                    queue = context.SimpleQueue()
                    child = context.Process(target=work, args=(queue,))
                    child.start()
                    print(method, *queue.get())
                    child.join()
                    assert child.exitcode == 0
            """))
        self.assertEqual(run.code, 0, "\n".join(run.lines))
        self.assertEqual(run.stdout.split("\n")[:4], ["warm", "spawn __mp_main__ False",
                                                      "fork __main__ True",
                                                      "forkserver __mp_main__ False"])

    def test_death_of_cpprun(self):
        """Its parent, its warm workers and their children die with it."""
        run = self.start(FAIL_FIRST + "import subprocess\n"
                         "child = subprocess.Popen(['sleep', '1000'])\n"
                         "print('pids', os.getpid(), child.pid, file=sys.stderr, flush=True)\n"
                         "child.wait()\n", "--stderr=inherit")
        parent = run.await_parent()
        run.open_gates()
        found = run.await_line(r"pids (\d+) (\d+)")
        pids = [parent, int(found[1]), int(found[2])]
        self.assertTrue(all(map(is_alive, pids)))
        run.process.kill()
        run.end()
        deadline = time.monotonic() + TIMEOUT
        while any(map(is_alive, pids)) and time.monotonic() < deadline:
            os.sched_yield()
        self.assertFalse([pid for pid in pids if is_alive(pid)])

    # --- fallbacks -------------------------------------------------------------------------------

    def check_unusable(self, modules, *words):
        run = self.start(FAIL_FIRST, modules=modules, workers=2, cpus={0})
        run.await_line("--warm: workers are started without it")
        run.open_gates()
        run.code = run.end()
        self.check_cold(run, "warning", *words)

    def test_missing_module(self):
        self.check_unusable("wsgiref,no_such_module", "cannot import no_such_module",
                            "No module named")

    def test_failing_module(self):
        self.write("modules/failing.py", "raise ValueError('not today')")
        self.check_unusable("failing", "cannot import failing: ValueError: not today")

    def test_exiting_module(self):
        self.write("modules/exiting.py", "import sys\nsys.exit(5)")
        self.check_unusable("exiting", "cannot import exiting: SystemExit: 5")

    def test_module_with_a_thread(self):
        self.write("modules/threaded.py", "import threading\n"
                   "threading.Thread(target=threading.Event().wait, daemon=True).start()")
        self.check_unusable("threaded", "2 threads run in the parent")

    def test_hidden_module(self):
        """What a script finds in its own directory, it has to find there."""
        self.write("wsgiref.py", "")
        run = self.start(FAIL_FIRST)
        run.await_line("--warm: workers are started without it")
        run.open_gates()
        run.code = run.end()
        self.assertIn("wsgiref.py hides the module wsgiref", run.notes()[0])

    def test_printing_module(self):
        self.write("modules/printing.py", "print('hello')\nprint('ready')\nimport wsgiref")
        run = self.run_again(FAIL_FIRST, modules="printing")
        self.assertEqual((run.code, run.stdout), (0, "warm\n"), "\n".join(run.lines))

    def test_slow_module(self):
        os.mkfifo(self.path("slow"))
        self.write("modules/slow.py", f"open({self.path('slow')!r}).read()\n")
        run = self.start(FAIL_FIRST, modules="slow")
        with open(self.path("slow"), "w"):  # it is importing now
            run.open_gates()
            run.code = run.end()
        self.check_cold(run, "note", "still importing")

    def test_crashing_module(self):
        self.write("modules/crashing.py", "import os\nos.kill(os.getpid(), 9)")
        run = self.start(FAIL_FIRST, modules="crashing", workers=2, cpus={0})
        run.await_line("--warm: workers are started without it")
        run.open_gates()
        run.code = run.end()
        self.assertEqual((run.code, run.stdout), (0, "cold\ncold\n"))
        self.assertEqual(len(run.notes()), 2)  # one for each round
        self.assertIn("the parent has exited", run.notes()[1])

    def check_parent(self, harm, *words):
        run = self.start(FAIL_FIRST)
        harm(run.await_parent())
        run.open_gates()
        run.code = run.end()
        self.check_cold(run, "note", *words)

    def test_killed_parent(self):
        def kill(pid):
            os.kill(pid, signal.SIGKILL)
            while is_alive(pid):
                os.sched_yield()
        self.check_parent(kill, "the parent has exited")

    def test_stopped_parent(self):
        def stop(pid):
            os.kill(pid, signal.SIGSTOP)
            while True:
                with open(f"/proc/{pid}/stat") as file:
                    if file.read().rpartition(")")[2].split()[0] == "T":
                        return
        self.check_parent(stop, "the parent is stopped")

    def test_changed_package(self):
        path = self.write("modules/package.py", "import wsgiref")
        run = self.start(FAIL_FIRST, modules="package")
        run.await_parent()
        with open(path, "a") as file:
            file.write("\n# another version\n")
        run.open_gates()
        run.code = run.end()
        self.check_cold(run, "note", "an installed package has changed")

    def check_forkless(self, error, text):
        self.write("modules/forkless.py", f"""
            import errno, os, wsgiref
            fork = os.fork
            def refuse():
                raise OSError(errno.{error}, os.strerror(errno.{error}))
            def once():
                os.fork = refuse
                return fork()
            os.fork = once
            """)
        run = self.run_again(FAIL_FIRST, modules="forkless")
        self.check_cold(run, "note", f"cannot fork: {text}")

    def test_no_more_processes(self):
        self.check_forkless("EAGAIN", "Resource temporarily unavailable")

    def test_no_more_memory(self):
        self.check_forkless("ENOMEM", "Cannot allocate memory")

    def test_parent_that_leaks(self):
        """What a module leaves open stays open, in the parent and in each worker once, and forks
        add nothing to it."""
        self.write("modules/leaking.py", """
            import os, wsgiref
            left = [os.dup(2) for _ in range(20)]
            """)
        attempts = 12
        run = self.start(joined(PRELUDE, f"""
            with open(os.environ["GATE"] + ".open", "a") as file:
                print(int(is_warm), len(os.listdir("/proc/self/fd")), file=file)
            sys.exit(0 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "{attempts}" else 3)
            """), f"--max-restarts={attempts}", modules="leaking")
        parent = run.await_parent()
        before = len(os.listdir(f"/proc/{parent}/fd"))
        run.open_gates()
        seen = []
        while is_alive(parent):
            try:
                seen.append(len(os.listdir(f"/proc/{parent}/fd")))
            except OSError:
                break  # it has exited
        self.assertEqual(run.end(), 0, "\n".join(run.lines))
        with open(run.gate + ".open") as file:
            rows = [tuple(map(int, line.split())) for line in file]
        self.assertEqual(rows, [rows[0]] + [(1, rows[0][1] + 20)] * attempts)
        # While it forks it has the descriptors of that one worker.
        self.assertLess(max(seen, default=before) - before, attempts)

    def test_silent_parent(self):
        """It is slow after it was asked; nothing it does later matters."""
        os.mkfifo(self.path("slow"))
        self.write("modules/lazy.py", f"""
            import os, wsgiref
            fork = os.fork
            def wait():
                open({self.path('slow')!r}).read()
                return fork()
            def once():
                os.fork = wait
                return fork()
            os.fork = once
            """)
        run = self.run_again(FAIL_FIRST, modules="lazy")
        self.check_cold(run, "note", "did not answer in time")

    # --- what is no plain script -----------------------------------------------------------------

    def check_program(self, program, *words, flags=()):
        run = self.start(None, *flags, program=program)
        run.await_line("--warm")
        run.open_gates()
        run.code = run.end()
        self.check_cold(run, *words)

    def test_zipapp(self):
        with zipfile.ZipFile(self.path("app.pyz"), "w") as archive:
            archive.writestr("__main__.py", FAIL_FIRST)
        self.check_program(["app.pyz"], "not a plain Python file")

    def test_directory(self):
        os.mkdir(self.path("app"))
        self.write("app/__main__.py", FAIL_FIRST)
        self.check_program(["app"], "not a plain Python file")

    def test_program(self):
        path = self.write("train", f"#!{sys.executable} -O\n" + FAIL_FIRST)
        os.chmod(path, 0o755)
        self.check_program(["./train"], "no effect", "not run by Python")

    def test_binary(self):
        again = '[ "$TORCHELASTIC_RESTART_COUNT" = 1 ]'
        self.check_program(["/bin/sh", "-c", f"{again} || read line <{self.path('gate0')}; "
                            f"echo cold; {again}"],
                           "no effect", "not run by Python", flags=["--no-python"])

    def test_script_without_py(self):
        self.write("train", FAIL_FIRST)
        run = self.run_again(None, "--run-path", program=["train"])
        self.assertEqual((run.code, run.stdout), (0, "warm\n"), "\n".join(run.lines))

    # --- under load ------------------------------------------------------------------------------

    @staticmethod
    def await_count(path, wanted):
        while True:
            if os.path.exists(path):
                with open(path) as file:
                    if int(file.read() or "0") >= wanted:
                        return
            os.sched_yield()

    def test_random_kills(self):
        """No rank runs twice, no line is lost, nothing is left."""
        script = joined(PRELUDE, """
            import fcntl, itertools, signal
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            rank, attempt = os.environ["RANK"], int(os.environ["TORCHELASTIC_RESTART_COUNT"])
            lock = open(os.environ["GATE"] + ".lock" + rank, "w")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            count = os.open(os.environ["GATE"] + f".count.{rank}.{attempt}",
                            os.O_WRONLY | os.O_CREAT)
            with open(os.environ["GATE"] + ".pids", "a") as file:
                file.write(f"{attempt} {int(is_warm)} {os.getpid()}\\n")
            for number in itertools.count():
                print(f"line {number} of attempt {attempt}", flush=True)
                os.pwrite(count, b"%d" % number, 0)
                if attempt == int(os.environ["KILLS"]):
                    sys.exit(0)
            """)
        workers = 3
        self.environment["KILLS"] = str(KILLS)
        run = self.start(script, f"--max-restarts={KILLS}", "--log-dir=logs", "--redirects=1",
                         workers=workers)
        parent = run.await_parent()
        run.open_gates()
        chance = random.Random(int(os.environ.get("WARM_SEED", "1")))
        warm = 0
        for attempt in range(KILLS):
            pids = {}
            while len(pids) < workers:
                os.sched_yield()
                if os.path.exists(run.gate + ".pids"):
                    with open(run.gate + ".pids") as file:
                        rows = [line.split() for line in file if line.endswith("\n")]
                    pids = {int(row[2]): int(row[1]) for row in rows if row[0] == str(attempt)}
            warm += sum(pids.values())
            self.await_count(f"{run.gate}.count.{chance.randrange(workers)}.{attempt}",
                             chance.randrange(500))
            os.kill(chance.choice(list(pids)), signal.SIGKILL)
        self.assertEqual(run.end(), 0, "\n".join(run.lines[-30:]))
        self.assertGreater(warm, 0)
        self.assertFalse(is_alive(parent))
        logs = self.path("logs", os.listdir(self.path("logs"))[0])
        for attempt in range(KILLS + 1):
            for rank in range(workers):
                with open(f"{run.gate}.count.{rank}.{attempt}") as file:
                    last = int(file.read() or "0")
                name = os.path.join(logs, f"attempt_{attempt}", str(rank), "stdout.log")
                with open(name) as file:
                    lines = file.read().splitlines()
                self.assertGreaterEqual(len(lines), last + 1)
                wanted = [f"line {number} of attempt {attempt}" for number in range(last + 1)]
                self.assertEqual(lines[:last + 1], wanted)
        if KILLS > 8:
            sys.stderr.write(f"{KILLS} kills: {warm} of {KILLS * workers} workers were warm\n")

    # --- PyTorch ---------------------------------------------------------------------------------

    def test_pytorch(self):
        """Collectives, DDP, data loaders, @record and the probe in forked workers."""
        run = self.start(TRAINING, "--probe=on", "--tee=1", "--log-dir=logs", modules="on",
                         workers=2)
        run.await_parent()
        run.open_gates()
        self.assertEqual(run.end(), 1, "\n".join(run.lines))
        logs = self.path("logs", os.listdir(self.path("logs"))[0])
        outs = []
        for attempt in (0, 1):
            for rank in (0, 1):
                path = os.path.join(logs, f"attempt_{attempt}", str(rank), "stdout.log")
                with open(path) as file:
                    outs.append(file.read())
        self.assertEqual(outs[0], outs[2].replace("warm", "cold"))
        self.assertEqual(outs[1], outs[3].replace("warm", "cold"))
        self.assertTrue(outs[2].startswith("warm"), outs)
        seeds = [line for line in run.lines if line.startswith("seeds")]
        numbers = [number for line in seeds for number in line.split()[1:]]
        self.assertEqual(len(set(numbers)), 8, seeds)
        for attempt in (0, 1):
            with open(os.path.join(logs, f"attempt_{attempt}", "0", "error.json")) as file:
                error = json.load(file)["message"]
            self.assertIn("the planned end", error["message"])
            self.assertIn("in main\n", error["extraInfo"]["py_callstack"])


TRAINING = """
import os, random, socket, sys
is_warm = "torch" in sys.modules
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.utils.data import DataLoader


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return torch.full((4,), float(at))


@record
def main():
    print("warm" if is_warm else "cold")
    print(torch.get_num_threads(), torch.get_num_interop_threads())
    print("seeds", torch.initial_seed(), random.random(), file=sys.stderr, flush=True)
    dist.init_process_group("gloo")
    x = torch.mm(torch.ones(200, 200), torch.ones(200, 200))
    dist.all_reduce(x)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    for method in ("fork", "spawn"):
        loader = DataLoader(Numbers(), batch_size=4, num_workers=1, multiprocessing_context=method)
        for batch in loader:
            model(batch).sum().backward()
    print(float(x.sum()), sum(float(each.grad.sum()) for each in model.parameters()))
    probe = socket.socket(socket.AF_UNIX)
    probe.connect(os.environ["CPPRUN_PROBE_SOCKET"])
    print("probe answers", flush=True)
    dist.barrier()
    if dist.get_rank() == 0:
        if not is_warm:
            with open(os.environ["GATE"] + "0") as gate:
                gate.readline()
        raise RuntimeError("the planned end")
    if not is_warm:
        with open(os.environ["GATE"] + "1") as gate:
            gate.readline()
    dist.barrier()


if __name__ == "__main__":
    main()
"""


if __name__ == "__main__":
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        print("warm_test.py: skipped: no PyTorch")
        Warm.test_pytorch = unittest.skip("no PyTorch")(Warm.test_pytorch)
    chosen = [f"Warm.{each}" for each in sys.argv[1:]]
    unittest.main(argv=sys.argv[:1] + chosen)
