#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cpprun --hosts and cpprunctl doctor over real sshds on three hosts:

    ssh_test.py CPPRUN

Skipped, with the reason, if OpenSSH or network namespaces are unavailable (`./dev test
--schedulers` installs what Debian has). Only the standard library."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from hosts import Hosts, run, why_not

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
from scenes import play

CPPRUN = sys.argv[1]
PAGE = os.path.join(HERE, "..", "..", "docs", "hosts.md")
REASON = why_not("/usr/sbin/sshd", "ssh", "ssh-keygen")
SECONDS_MAX = 60
SAY = 'echo "rank $RANK of $WORLD_SIZE on $(hostname) at $MASTER_ADDR"'

SSHD = """Port 22
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
"""
SSH = """IdentityFile {directory}/key
IdentitiesOnly yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


class SshHosts(unittest.TestCase):
    """Hosts with an sshd each, and a person's directory."""

    NAMES = ["h1", "h2", "h3"]

    def setUp(self):
        self.daemons = []
        self.addCleanup(lambda: [each.wait() for each in self.daemons])
        self.hosts = Hosts(self.NAMES)
        self.addCleanup(self.hosts.remove)
        self.directory = tempfile.mkdtemp(prefix="cpprun-ssh-")
        self.addCleanup(shutil.rmtree, self.directory)
        for name in ("key", "host_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name))
        self.write("sshd_config", SSHD.format(directory=self.directory))
        self.write("ssh_config", SSH.format(directory=self.directory))
        # A person's ~/.ssh/config; ssh takes the home from the password database, not from HOME.
        os.mkdir(self.path("bin"))
        self.write("bin/ssh", f'#!/bin/sh\nexec /usr/bin/ssh -F {self.directory}/ssh_config "$@"\n')
        os.chmod(self.path("bin/ssh"), 0o755)
        self.environment = dict(os.environ, PATH=f"{self.path('bin')}:{os.environ['PATH']}",
                                TMPDIR=self.directory)
        os.makedirs("/run/sshd", exist_ok=True)  # sshd needs it
        for name in self.hosts.names:
            self.start_sshd(name)

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def start_sshd(self, name):
        self.daemons.append(self.hosts.start(
            name, "/usr/sbin/sshd", "-D", "-f", self.path("sshd_config"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.wait_until(lambda: self.hosts.inside(
            self.hosts.mark + name, "ssh-keyscan", "-T", "1", self.hosts.address(name),
            check=False).stdout.count("ssh-ed25519") > 0, f"the sshd of {name}")

    def wait_until(self, holds, what):
        deadline = time.monotonic() + SECONDS_MAX
        while not holds():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.05)

    def console(self, *words, program=CPPRUN):
        """A command as it is typed on the first host."""
        return self.hosts.start(self.NAMES[0], program, *words, cwd=self.directory, text=True,
                                env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def to_end(self, *words, **options):
        started = self.console(*words, **options)
        try:
            output = started.communicate(timeout=SECONDS_MAX)[0]
        except subprocess.TimeoutExpired:
            started.terminate()
            output = started.communicate()[0] + "\n(no end of cpprun)"
        return started.returncode, output

    def words_of(self, host):
        """The processes there, except sshd."""
        found = []
        for pid in self.hosts.pids(host):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().decode(errors="replace").replace("\0", " ")
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = file.read().decode(errors="replace")
            except OSError:
                continue
            if words and "sshd" not in words:
                found.append((words, variables))
        return found

    def expect_no_process(self):
        self.wait_until(lambda: not any(self.words_of(host) for host in self.hosts.names),
                        "no process is left on the hosts")

    def up(self, count):
        self.wait_until(lambda: len([each for each in os.listdir(self.directory)
                                     if each.startswith("up-")]) == count, f"{count} workers")


@unittest.skipIf(REASON, REASON)
class HostsPageTest(SshHosts):
    NAMES = ["gpu1", "gpu2", "gpu3", "small"]

    def test_the_commands_of_its_page_do_what_it_says(self):
        self.write("train", '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE"\n')
        os.chmod(self.path("train"), 0o755)
        path = f"PATH={os.path.dirname(CPPRUN)}:$PATH; "
        faults = play(PAGE, self.directory, lambda _, command: self.to_end(
            "-c", path + command, program="sh"))
        self.assertEqual(faults, [], "\n".join(faults))
        self.expect_no_process()


@unittest.skipIf(REASON, REASON)
class SshTest(SshHosts):
    """Each name is a sentence about cpprun --hosts over ssh."""

    def test_one_command_starts_all_hosts(self):
        code, said = self.to_end("--hosts=h1,h2:2,h3", "--insecure", "--no-python", "sh", "-c", SAY)
        self.assertEqual(code, 0, said)
        self.assertEqual(sorted(re.findall(r"^\[(h\d)\] rank (\d) of 4 on (h\d) at 10\.77\.0\.1$",
                                           said, re.MULTILINE)),
                         [("h1", "0", "h1"), ("h2", "1", "h2"), ("h2", "2", "h2"),
                          ("h3", "3", "h3")], said)
        self.expect_no_process()

    def test_a_host_that_is_down_is_named_and_nothing_starts(self):
        self.hosts.end_all("h3")
        code, said = self.to_end("--hosts=h1,h2,h3,nowhere", "--insecure", "--no-python", "touch",
                                 self.path("up-"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"2 of 4 hosts cannot be reached:\n  h3: .*Connection refused\n"
                               r"  nowhere: .*Could not resolve hostname nowhere")
        self.assertFalse(os.path.exists(self.path("up-")))
        self.expect_no_process()

    def test_the_secret_is_on_no_command_line_and_in_no_environment(self):
        run(CPPRUN + "ctl", "keygen", self.path("secret"))
        with open(self.path("secret"), encoding="utf-8") as file:
            key = file.read().strip().rsplit(":", 1)[1]
        console = self.console("--hosts=h2,h3", f"--secret-file={self.path('secret')}",
                               "--no-python", "sh", "-c", "echo $MASTER_ADDR; : >up-$RANK; "
                               "until test -e go; do sleep 0.1; done")
        self.up(2)
        running = [words for host in self.hosts.names for words in self.words_of(host)]
        self.write("go", "")
        said = console.communicate(timeout=SECONDS_MAX)[0]
        self.assertEqual(console.returncode, 0, said)
        self.assertEqual(said.count("] 127.0.0.1\n"), 2, said)  # the store is each node's own
        self.assertGreaterEqual(len(running), 6)
        for words, variables in running:
            self.assertNotIn(key, words)
            self.assertNotIn(key, variables)
        self.expect_no_process()

    def test_cpprun_is_copied_to_hosts_without_it(self):
        os.mkdir(self.path("alone"))
        shutil.copy(CPPRUN, self.path("alone/cpprun"))
        for host in ("h2", "h3"):  # as if this directory did not exist there
            self.hosts.covered[host] = self.path("alone")
            self.hosts.end_all(host)
            self.start_sshd(host)
        code, said = self.to_end("--hosts=h2,h3", "--insecure", "--no-python", "true",
                                 program=self.path("alone/cpprun"))
        self.assertEqual(code, 1, said)
        self.assertEqual(said.count("no cpprun at " + self.path("alone/cpprun")), 2, said)
        code, said = self.to_end("--hosts=h2,h3", "--ship", "--insecure", "--no-python", "sh",
                                 "-c", SAY, program=self.path("alone/cpprun"))
        self.assertEqual(code, 0, said)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 2 on (h\d)", said)),
                         [("0", "h2"), ("1", "h3")], said)
        self.expect_no_process()
        self.assertEqual([each for each in os.listdir(self.directory)
                          if each.startswith("cpprun.")],
                         [])

    def test_a_dry_run_prints_each_hosts_address_and_ranks(self):
        code, said = self.to_end("--dry-run", "--json", "--hosts=h2:2,h3", "--insecure",
                                 "--no-python", "touch", self.path("started"))
        self.assertEqual(code, 0, said)
        self.assertFalse(os.path.exists(self.path("started")))
        output = json.loads(said)
        self.assertEqual((output["master_address"], output["master_port"]), ("10.77.0.2", None))
        self.assertEqual([(node["host"], node["group_rank"], node["address"], node["interface"],
                           [worker["rank"] for worker in node["workers"]])
                          for node in output["nodes"]],
                         [("h2", 0, "10.77.0.2", "eth0", [0, 1]), ("h3", 1, "10.77.0.3", "eth0",
                                                                   [2])])
        self.expect_no_process()

    def examine(self, *words):
        return self.to_end("doctor", *words, program=CPPRUN + "ctl")

    def between(self, *words):
        """The doctor's findings about the network, not about this machine's disks and limits."""
        code, said = self.examine("--json", *words)
        output = json.loads(said)
        self.assertEqual(code, int(bool(output["findings"])), said)
        return [each["host"] + ": " + each["what"] for each in output["findings"]
                if any(word in each["what"] for word in
                       ("reach", "name", "examination", "clock", "listen"))]

    def test_the_doctor_finds_nothing_between_healthy_hosts(self):
        self.assertEqual(self.between("--hosts=h1,h2,h3"), [])
        self.expect_no_process()

    def test_the_doctor_names_a_host_whose_port_is_firewalled(self):
        if not shutil.which("iptables"):
            self.skipTest("no iptables here")
        space = self.hosts.mark + "h3"
        self.hosts.inside(space, "iptables", "-A", "INPUT", "-p", "tcp", "--dport", "29500", "-j",
                          "DROP")
        code, said = self.examine("--hosts=h1,h2,h3", "--port=29500")
        self.assertEqual(code, 1, said)
        self.assertIn("h3: unreachable at 10.77.0.3:29500 from every host that tried: no response "
                      "within 3 s", said)
        self.assertIn("check the address and the firewall", said)
        self.assertEqual(self.between("--hosts=h1,h2,h3", "--port=29501"), [])
        self.hosts.inside(space, "iptables", "-R", "INPUT", "1", "-s", "10.77.0.2", "-p", "tcp",
                          "--dport", "29500", "-j", "REJECT", "--reject-with", "tcp-reset")
        self.assertEqual(self.between("--hosts=h1,h2,h3", "--port=29500"),
                         ["h3: unreachable at 10.77.0.3:29500 from h2: Connection refused"])
        self.expect_no_process()

    def test_the_doctor_names_a_host_whose_name_is_not_resolved(self):
        self.write("ssh_config", SSH.format(directory=self.directory) +
                   "Host other\nHostName 10.77.0.3\n")  # only ssh knows it by this name
        findings = self.between("--hosts=h1,h2,other")
        self.assertEqual(len(findings), 1, findings)
        self.assertRegex(findings[0], "^other: name cannot be resolved on h1, h2: ")
        self.expect_no_process()

    def test_the_doctor_names_a_name_that_resolves_to_the_host_itself(self):
        with open(f"{self.hosts.etc}/hosts", "a", encoding="utf-8") as file:
            file.write("127.0.1.1 loop\n")  # as Debian writes a host's own name
        self.write("ssh_config", SSH.format(directory=self.directory) +
                   "Host loop\nHostName 10.77.0.3\n")
        self.assertEqual(self.between("--hosts=h1,loop"),
                         ["loop: name resolves to the loopback address 127.0.1.1 on h1"])

    def test_the_doctor_examines_the_others_if_one_is_dead(self):
        self.hosts.end_all("h3")
        findings = self.between("--hosts=h1,h2,h3")
        self.assertEqual(len(findings), 1, findings)
        self.assertRegex(findings[0], "^h3: examination failed: .*Connection refused")
        self.expect_no_process()

    def test_the_doctor_is_copied_to_hosts_without_it(self):
        os.mkdir(self.path("alone"))
        shutil.copy(CPPRUN + "ctl", self.path("alone/cpprunctl"))
        self.hosts.covered["h2"] = self.path("alone")  # as if this directory did not exist there
        self.hosts.end_all("h2")
        self.start_sshd("h2")
        tool = self.path("alone/cpprunctl")
        code, said = self.to_end("doctor", "--hosts=h1,h2", program=tool)
        self.assertEqual(code, 1, said)
        self.assertIn(f"h2: examination failed: no cpprunctl at {tool}", said)
        _, said = self.to_end("doctor", "--json", "--hosts=h1,h2", "--ship", program=tool)
        output = json.loads(said)
        self.assertEqual([host["not_examined"] for host in output["hosts"]], [None, None])
        self.assertEqual([pair["reached"] for pair in output["pairs"]], ["yes", "yes"])
        self.expect_no_process()
        self.assertEqual([each for each in os.listdir(self.directory)
                          if each.startswith("cpprun.")],
                         [])

    def test_no_process_is_left_when_the_console_is_killed(self):
        console = self.console("--hosts=h1,h2,h3", "--insecure", "--no-python", "sh", "-c",
                               ": >up-$RANK; sleep 1000")
        self.up(3)
        os.kill(console.pid, signal.SIGKILL)
        console.communicate(timeout=SECONDS_MAX)
        self.expect_no_process()

    def test_a_lost_host_is_replaced_and_restarted(self):
        console = self.console("--hosts=h1,h2,h3", "--nnodes=2:3", "--max-restarts=3",
                               "--insecure", "--no-python", "sh", "-c",
                               "mktemp up-$WORLD_SIZE-$(hostname)-XXXXXX >/dev/null; "
                               "until test -e go; do sleep 0.1; done; echo end of $WORLD_SIZE")
        self.up(3)
        self.hosts.power_off("h3")
        self.wait_until(lambda: any(each.startswith("up-2-")
                                    for each in os.listdir(self.directory)),
                        "the others go on")
        self.hosts.inside(self.hosts.mark + "h3", "ip", "link", "set", "eth0", "up")
        self.start_sshd("h3")
        self.wait_until(lambda: len([each for each in os.listdir(self.directory)
                                     if each.startswith("up-3-h3")]) == 2, "h3 is back")
        self.write("go", "")
        said = console.communicate(timeout=SECONDS_MAX)[0]
        self.assertEqual(console.returncode, 0, said)
        self.assertEqual(said.count("end of 3"), 3, said)
        self.expect_no_process()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # CTest's: the hosts are removed
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
