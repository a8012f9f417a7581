#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The units of docs/operating/ for systemd, against systemd and a real cpprund:

    units_test.py CPPRUND SOURCE_DIRECTORY

systemd-analyze checks them and rates how exposed the service is, and the system calls that they
allow are compared with those of the daemon. No systemd has to run. Skipped, with the reason,
without systemd-analyze (Debian's package `systemd`) or strace. Only the standard library.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

CPPRUND, SOURCE = sys.argv[1:3]
UNITS = ["cpprund.socket", "cpprund.service"]
EXPOSURE_MAX = 2.0
SECONDS_MAX = 60


def text_of(name):
    with open(os.path.join(SOURCE, "docs/operating", name), encoding="utf-8") as file:
        return file.read()


def values_of(name, key):
    return re.findall(rf"^{key}=(.*)$", text_of(name), re.MULTILINE)


def analyze(*words):
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=SECONDS_MAX)


def needs(*programs):
    missing = [each for each in programs if not shutil.which(each)]
    return unittest.skipIf(missing, f"no {' and no '.join(missing)} here")


class UnitsTest(unittest.TestCase):
    """Each name is a sentence about the units."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cpprun-units-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.paths = []
        for name in UNITS:
            self.paths.append(os.path.join(self.directory, name))
            with open(self.paths[-1], "w", encoding="utf-8") as file:
                file.write(text_of(name).replace("/usr/bin/cpprund", CPPRUND))

    @needs("systemd-analyze")
    def test_systemd_finds_no_error_in_them(self):
        done = analyze("verify", "--man=no", *self.paths)
        about_us = [line for line in done.stderr.splitlines() if "cpprund." in line]
        self.assertEqual((done.returncode, about_us), (0, []), done.stderr)

    @needs("systemd-analyze")
    def test_systemd_finds_an_error_that_is_put_into_them(self):
        with open(self.paths[1], "a", encoding="utf-8") as file:
            file.write("\n[Service]\nProtectHimself=yes\n")
        done = analyze("verify", "--man=no", *self.paths)
        self.assertIn("ProtectHimself", done.stderr)

    @needs("systemd-analyze")
    def test_the_service_is_little_exposed(self):
        done = analyze("security", "--offline=true", "--no-pager", self.paths[1])
        if "unrecognized option" in done.stderr:
            self.skipTest("this systemd-analyze looks at running services alone")
        level = re.search(r"Overall exposure level for cpprund.service: ([0-9.]+)", done.stdout)
        self.assertIsNotNone(level, done.stdout + done.stderr)
        print(f"exposure: {level[1]}")
        self.assertLessEqual(float(level[1]), EXPOSURE_MAX, done.stdout)

    def test_one_port_is_passed_and_no_connection(self):
        self.assertEqual(values_of("cpprund.socket", "ListenStream"), ["29400"])
        self.assertNotIn("Accept", text_of("cpprund.socket"))
        self.assertEqual(values_of("cpprund.service", "Type"), ["notify"])

    @needs("systemd-analyze", "strace")
    def test_the_daemon_makes_no_rejected_system_call(self):
        allowed = self.allowed_calls()
        self.assertNotIn("mount", allowed)
        called = self.calls_of_a_daemon()
        self.assertIn("epoll_wait", called)
        self.assertEqual(called - allowed, set())

    def groups(self):
        """The members of systemd's groups of system calls: names of calls and of groups."""
        done = analyze("syscall-filter", "--no-pager")
        groups, name = {}, None
        for line in done.stdout.splitlines():
            word = line.strip()
            if line.startswith("@"):
                name = word
                groups[name] = set()
            elif line.startswith(" ") and word and not word.startswith("#") and name:
                groups[name].add(word)
            elif not line.startswith(" "):
                name = None if word else name
        return groups

    def allowed_calls(self):
        groups = self.groups()

        def meant(word):
            if not word.startswith("@"):
                return {word}
            return set().union(*(meant(each) for each in groups[word]))

        allowed = set()
        for line in values_of("cpprund.service", "SystemCallFilter"):
            words = set().union(*(meant(word) for word in line.lstrip("~").split()))
            allowed = allowed - words if line.startswith("~") else allowed | words
        return allowed | meant("@default")

    def calls_of_a_daemon(self):
        """The system calls of a daemon with HTTP and unidentified clients, and those of its
        children."""
        trace = os.path.join(self.directory, "trace")
        words = ["strace", "-f", "-qq", "-o", trace, CPPRUND, "--host=127.0.0.1", "--port=0"]
        environment = dict(os.environ, XDG_RUNTIME_DIR=self.directory)
        with open(os.path.join(self.directory, "log"), "wb") as log, subprocess.Popen(
                words, env=environment, stdout=subprocess.PIPE, stderr=log) as daemon:
            line = daemon.stdout.readline().decode()
            if not line.startswith("cpprund listening on"):
                daemon.kill()
                self.skipTest("strace may trace nothing here")
            port = int(line.rsplit(":", 1)[1])
            question = b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
            for words in (question, b"SSH-2.0-x\r\n"):
                with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as client:
                    client.sendall(words)
                    client.recv(64)
            # strace exits with the traced process.
            with open(trace, encoding="utf-8") as file:
                os.kill(int(file.readline().split()[0]), 15)
            daemon.wait(SECONDS_MAX)
        with open(trace, encoding="utf-8") as file:
            return set(re.findall(r"^\d+ +([a-z_0-9]+)\(", file.read(), re.MULTILINE))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
