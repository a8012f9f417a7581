#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cpprun --hosts, --dry-run and cpprunctl doctor with a remote shell whose hosts are all this
machine:

    hosts_test.py CPPRUN

Only the standard library."""

import collections
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

CPPRUN = sys.argv[1]
SECONDS_MAX = 120
# `shell HOST COMMAND…`; hosts whose name begins with "dead" are unreachable.
SHELL = """#!/bin/sh
host=$1
shift
echo "$PPID $host" >>{directory}/dialed
case $host in
dead*) echo "connect to host $host: Connection refused" >&2; exit 255 ;;
esac
exec env CPPRUN_TEST_MARK={directory} "$@"
"""


class HostsTest(unittest.TestCase):
    """Each name is a sentence about cpprun --hosts."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cpprun-hosts-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.shell = self.path("shell")
        with open(self.shell, "w", encoding="utf-8") as file:
            file.write(SHELL.format(directory=self.directory))
        os.chmod(self.shell, 0o755)

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, *words, **options):
        return subprocess.Popen(
            [CPPRUN, "--remote-shell", self.shell, "--insecure", *words], cwd=self.directory,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            **options)

    def run_to_end(self, *words, **options):
        started = self.start(*words, **options)
        out, err = started.communicate(timeout=SECONDS_MAX)
        return started.returncode, out, err

    def left(self):
        """The processes on the "hosts": each has the mark in its environment."""
        mark = f"CPPRUN_TEST_MARK={self.directory}".encode()
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        pids.append(int(pid))
            except OSError:
                pass
        return pids

    def wait_until(self, holds, what):
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def touched(self, name, count):
        self.wait_until(lambda: len([each for each in os.listdir(self.directory)
                                     if each.startswith(name)]) == count, f"{count} × {name}")

    def test_ranks_follow_the_order_of_the_hosts_and_lines_have_a_host_prefix(self):
        code, out, err = self.run_to_end(
            "--hosts=b:2,a", "--master-addr=127.0.0.1", "--no-python", "sh", "-c",
            "echo rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE")
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()),
                         ["[a] rank 2 of 3, 0 of 1", "[b] rank 0 of 3, 0 of 2",
                          "[b] rank 1 of 3, 1 of 2"])

    def test_a_host_file_has_hosts_and_slots(self):
        with open(self.path("hosts"), "w", encoding="utf-8") as file:
            file.write("# two machines\na slots=2\n\nb:1  # the small one\n")
        code, out, err = self.run_to_end(
            "--hostfile=hosts", "--master-addr=127.0.0.1", "--no-python", "sh", "-c",
            "echo $RANK of $WORLD_SIZE")
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()), ["[a] 0 of 3", "[a] 1 of 3", "[b] 2 of 3"])

    def test_unreachable_hosts_are_reported_in_one_list_and_nothing_starts(self):
        code, out, err = self.run_to_end("--hosts=a,dead1,b,dead2", "--master-addr=127.0.0.1",
                                         "--no-python", "touch", self.path("started"))
        self.assertEqual((code, out), (1, ""))
        self.assertIn("2 of 4 hosts cannot be reached:\n"
                      "  dead1: connect to host dead1: Connection refused\n"
                      "  dead2: connect to host dead2: Connection refused\n", err)
        self.assertIn("nothing was started", err)
        self.assertFalse(os.path.exists(self.path("started")))
        self.assertEqual(self.left(), [])

    def test_a_workers_exit_code_is_the_consoles_exit_code(self):
        code, _, err = self.run_to_end("--hosts=a,b", "--master-addr=127.0.0.1", "--no-python",
                                       "sh", "-c", "test $RANK = 0 && sleep 1000; exit 7")
        self.assertEqual(code, 7, err)
        self.assertIn("[b] ", err)
        self.wait_until(lambda: not self.left(), "no process is left")

    def test_variables_and_the_directory_are_passed_on(self):
        environment = dict(os.environ, NCCL_DEBUG="WARN", MINE="a 'b' \"c\"\n$d", OTHER="x")
        code, out, err = self.run_to_end(
            "--hosts=a", "--export=MINE,YOURS=1=2", "--no-python", "sh", "-c",
            'echo "$NCCL_DEBUG|$MINE|$YOURS|$(basename "$PWD")"', env=environment)
        self.assertEqual(code, 0, err)
        self.assertEqual(out, "[a] WARN|a 'b' \"c\"\n[a] $d|1=2|" +
                         os.path.basename(self.directory) + "\n")

    def test_ctrl_c_ends_all_and_gives_them_time_to_save(self):
        console = self.start("--hosts=a,b:2", "--master-addr=127.0.0.1", "--no-python", "sh", "-c",
                             "trap ': >saved-$RANK; exit 1' INT TERM; : >up-$RANK; "
                             "while :; do sleep 0.1; done")
        self.touched("up-", 3)
        console.send_signal(signal.SIGINT)
        _, err = console.communicate(timeout=SECONDS_MAX)
        self.assertEqual(console.returncode, 128 + signal.SIGINT, err)
        self.touched("saved-", 3)
        self.wait_until(lambda: not self.left(), "no process is left")  # the watchdogs are the last

    def test_no_process_is_left_when_the_console_is_killed(self):
        console = self.start("--hosts=a,b", "--master-addr=127.0.0.1", "--no-python", "sh", "-c",
                             ": >up-$RANK; sleep 1000")
        self.touched("up-", 2)
        console.kill()
        console.communicate(timeout=SECONDS_MAX)
        self.wait_until(lambda: not self.left(), "no process is left")

    def rehearse(self, *words, **variables):
        """A dry run on this machine alone, in an empty directory, and the files that it left
        there."""
        directory = tempfile.mkdtemp(dir=self.directory)
        environment = dict(os.environ, TMPDIR=directory, **variables)
        ended = subprocess.run([CPPRUN, "--dry-run", *words], cwd=directory, env=environment,
                               stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=SECONDS_MAX)
        self.assertEqual(os.listdir(directory), [], "nothing is made")
        return ended

    def test_a_dry_run_prints_everything_and_makes_no_file(self):
        ended = self.rehearse("--json", "--nproc-per-node=2", "--log-dir=logs", "--tee=3",
                              "--report=report", "--events=events", "--no-python", "touch",
                              "worker-${local_rank}", NCCL_DEBUG="WARN", WANDB_API_KEY="hush")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertNotIn("hush", ended.stdout)
        output = json.loads(ended.stdout)
        node, = output["nodes"]
        self.assertEqual(node["inherited"]["NCCL_DEBUG"], "WARN")
        self.assertEqual([each["command"][1] for each in node["workers"]],
                         ["worker-0", "worker-1"])
        self.assertEqual([each["variables"]["RANK"] for each in node["workers"]], ["0", "1"])
        self.assertEqual(node["workers"][0]["variables"]["WORLD_SIZE"], "2")
        self.assertIsNone(node["workers"][0]["variables"]["MASTER_PORT"])
        self.assertIn("MASTER_PORT", [each["what"] for each in output["unknown"]])

    def test_a_dry_run_has_the_variables_of_the_run(self):
        words = ["--standalone", "--nproc-per-node=2", "--no-python", "sh", "-c", "exec env -0"]
        output = json.loads(self.rehearse("--json", *words).stdout)
        ran = subprocess.run([CPPRUN, "--nproc-per-node=2", "--local-ranks-filter=1",
                              *words[2:]], stdin=subprocess.DEVNULL, capture_output=True,
                             timeout=SECONDS_MAX, check=True)
        had = dict(line.split("=", 1) for line in ran.stdout.decode().split("\0") if "=" in line)
        variables = output["nodes"][0]["workers"][1]["variables"]
        self.assertEqual({name: had[name] for name in variables},
                         {name: had[name] if value is None else value
                          for name, value in variables.items()})
        new = {name for name in had if name not in os.environ and name not in ("PWD", "_", "SHLVL")}
        self.assertEqual(new - variables.keys(), set())

    def test_a_dry_run_reports_the_same_errors_as_a_run(self):
        ended = self.rehearse("--report=report", "--nnodes=0", "gone.py")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertIn("--nnodes=0 is neither", ended.stderr)
        ended = self.rehearse("--report=report", "gone.py")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertIn('cannot run "gone.py"', ended.stderr)

    def test_a_dry_run_of_hosts_prints_all_ranks_and_starts_nothing(self):
        subprocess.run([CPPRUN + "ctl", "keygen", self.path("secret")], check=True,
                       capture_output=True)
        with open(self.path("secret"), encoding="utf-8") as file:
            key = file.read().strip().rsplit(":", 1)[1]
        before = set(os.listdir(self.directory)) | {"dialed"}
        code, out, err = self.run_to_end(
            "--dry-run", "--json", "--hosts=b:2,a", "--master-addr=127.0.0.1",
            "--secret-file=secret", "--export=MINE=hush", "--no-python", "touch",
            self.path("started"))
        self.assertEqual(code, 0, err)
        self.assertEqual(set(os.listdir(self.directory)), before)
        self.assertNotIn(key, out + err)
        self.assertNotIn("hush", out + err)
        output = json.loads(out)
        self.assertTrue(output["secret"])
        self.assertIsNone(output["master_port"])
        self.assertEqual([(node["name"], worker["rank"], worker["variables"]["WORLD_SIZE"])
                          for node in output["nodes"] for worker in node["workers"]],
                         [("b", 0, "3"), ("b", 1, "3"), ("a", 2, "3")])
        self.assertEqual(self.left(), [])

    def test_a_dry_run_of_an_elastic_job_prints_no_rank(self):
        code, out, err = self.run_to_end("--dry-run", "--hosts=a,b", "--nnodes=1:2",
                                         "--master-addr=127.0.0.1", "--no-python", "true")
        self.assertEqual(code, 0, err)
        self.assertIn("\n  RANK=?\n", out)
        self.assertIn("depends on the number of workers on nodes with lower ranks", out)

    def test_a_dry_run_reports_what_a_host_would_reject(self):
        code, out, err = self.run_to_end("--dry-run", "--hosts=a,b", "--master-addr=127.0.0.1",
                                         "gone.py")
        self.assertEqual((code, out), (2, ""))
        for host in "ab":
            self.assertIn(f'[{host}] cpprun: error: cannot run "gone.py"', err)
        code, out, err = self.run_to_end("--dry-run", "--hosts=a,dead1", "--master-addr=127.0.0.1",
                                         "--no-python", "true")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("dead1: connect to host dead1: Connection refused", err)

    def examine(self, *words):
        ended = subprocess.run([CPPRUN + "ctl", "doctor", *words], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=SECONDS_MAX, env={
                                   name: value for name, value in os.environ.items()
                                   if not name.startswith("SSH_")})
        self.assertEqual(self.left(), [])
        return ended

    def between(self, output):
        """The findings that do not depend on this machine: its disks, limits, GPUs."""
        return [each["host"] + ": " + each["what"] for each in output["findings"]
                if any(word in each["what"] for word in
                       ("reach", "name", "examination", "clock", "listen"))]

    def test_the_doctor_makes_hosts_connect_to_each_other(self):
        ended = self.examine("--json", "--hosts=localhost,127.0.0.1,127.0.0.2",
                             "--remote-shell", self.shell)
        output = json.loads(ended.stdout)
        self.assertEqual(ended.returncode, int(bool(output["findings"])), ended.stderr)
        self.assertEqual(self.between(output), [])
        self.assertEqual([(pair["from"], pair["to"], pair["reached"]) for pair in output["pairs"]],
                         [("localhost", "127.0.0.1", "yes"), ("localhost", "127.0.0.2", "yes"),
                          ("127.0.0.1", "127.0.0.2", "yes"), ("127.0.0.1", "localhost", "yes"),
                          ("127.0.0.2", "localhost", "yes"), ("127.0.0.2", "127.0.0.1", "yes")])
        self.assertTrue(all(abs(host["clock_ahead_seconds"]) <= host["clock_error_seconds"] + 0.01
                            for host in output["hosts"]))
        self.assertIn("cpprun ", output["hosts"][0]["facts"]["cpprun"])

    def test_the_doctor_names_hosts_that_are_unreachable_or_unresolved(self):
        ended = self.examine("--json", "--hosts=localhost,dead1,no-such-host.invalid",
                             "--remote-shell", self.shell)
        output = json.loads(ended.stdout)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        findings = self.between(output)
        self.assertEqual(findings[0], "dead1: examination failed: connect to host dead1: "
                                      "Connection refused")
        self.assertRegex(findings[1], "^no-such-host.invalid: name cannot be resolved on "
                                      "localhost: ")
        self.assertEqual(len(findings), 2, findings)

    def test_the_doctor_names_the_process_on_the_port(self):
        with socket.create_server(("", 0)) as server:
            ended = self.examine("--hosts=localhost,127.0.0.1", "--remote-shell", self.shell,
                                 f"--port={server.getsockname()[1]}")
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertEqual(ended.stdout.count(": cannot listen: port "), 2, ended.stdout)
        self.assertIn("ss -ltnp", ended.stdout)

    def test_the_doctor_examines_a_single_machine(self):
        ended = self.examine()
        self.assertIn(ended.returncode, (0, 1), ended.stderr)
        self.assertEqual(ended.returncode == 0, "no problems found\n" in ended.stdout)
        self.assertTrue(ended.stdout.startswith("HOST "), ended.stdout)

    def test_the_doctor_examines_many_hosts_and_each_connects_to_some(self):
        hosts = ["127.0.0.1", *(f"127.0.1.{number}" for number in range(1, 40))]
        ended = self.examine("--json", "--hosts=" + ",".join(hosts), "--remote-shell", self.shell)
        output = json.loads(ended.stdout)
        self.assertEqual(self.between(output), [])
        # 32 followers of each, and the first for the seven that are too far away from it.
        self.assertEqual(len(output["pairs"]), 40 * 32 + 7)
        self.assertEqual({pair["reached"] for pair in output["pairs"]}, {"yes"})

    def test_the_doctor_rejects_invalid_arguments(self):
        for words, why in ((["--hosts=a", "--hostfile=b"], "--hostfile exclude each other"),
                           (["--hosts=-x"], "is an option, not a host"),
                           (["--hostfile=gone"], "--hostfile=gone cannot be read"),
                           (["--ship"], "no effect without --hosts"),
                           (["--hosts=a", "--remote-shell", " "], "--remote-shell is empty"),
                           (["--port=70000"], "--port")):
            ended = self.examine(*words)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), words)
            self.assertIn(why, ended.stderr)

    def test_the_console_opens_one_shell_for_each_of_100_hosts(self):
        hosts = ",".join(f"h{number}" for number in range(100))
        console = self.start(f"--hosts={hosts}", "--master-addr=127.0.0.1", "--no-python", "sh",
                             "-c", "echo $RANK of $WORLD_SIZE")
        out, err = console.communicate(timeout=SECONDS_MAX)
        self.assertEqual(console.returncode, 0, err[-2000:])
        self.assertEqual(sorted(out.splitlines()),
                         sorted(f"[h{number}] {number} of 100" for number in range(100)))
        with open(self.path("dialed"), encoding="utf-8") as file:
            dialed = collections.Counter(line.split()[0] for line in file)
        self.assertEqual(dialed, {str(console.pid): 100})
        self.wait_until(lambda: not self.left(), "nobody is left")  # the watchdogs are the last

    def test_shells_keep_the_limit_of_open_files_and_more_hosts_than_it_allows_are_rejected(self):
        limits = (64, 331)  # 100 hosts need 332
        script = ("--master-addr=127.0.0.1", "--no-python", "sh", "-c", "ulimit -Sn; ulimit -Hn")

        def lower():
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        code, out, err = self.run_to_end("--hosts=a", *script, preexec_fn=lower)
        self.assertEqual((code, out), (0, "[a] 64\n[a] 331\n"), err)
        hosts = ",".join(f"h{number}" for number in range(100))
        code, out, err = self.run_to_end(f"--hosts={hosts}", *script, preexec_fn=lower)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("error: 100 hosts need 332 open files, but the hard limit is 331\n"
                      "  hint: raise it (", err)
        ended = subprocess.run([CPPRUN + "ctl", "doctor", f"--hosts={hosts}"], text=True,
                               stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=lower)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("error: 100 hosts need 332 open files", ended.stderr)
        with open(self.path("dialed"), encoding="utf-8") as file:
            self.assertEqual([line.split()[1] for line in file], ["a"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
