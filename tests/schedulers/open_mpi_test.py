#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cpprun under a real mpirun of Open MPI on three hosts:

    open_mpi_test.py CPPRUN

Skipped, with the reason, if Open MPI or network namespaces are unavailable (`./dev test
--schedulers` installs what Debian has). Only the standard library."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from hosts import Hosts, why_not

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
from scenes import play

CPPRUN = sys.argv[1]
PAGE = os.path.join(HERE, "..", "..", "docs", "mpirun.md")
REASON = why_not("mpirun")
SECONDS_MAX = 60
SAY = 'echo "rank $RANK of $WORLD_SIZE on node $GROUP_RANK of $(hostname) at $MASTER_ADDR"'


@unittest.skipIf(REASON, REASON)
class OpenMpiTest(unittest.TestCase):
    """Each name is a sentence about cpprun under mpirun."""

    def setUp(self):
        self.hosts = Hosts(["h1", "h2", "h3"])
        self.addCleanup(self.hosts.remove)
        self.directory = tempfile.mkdtemp(prefix="cpprun-mpi-")
        self.addCleanup(shutil.rmtree, self.directory)
        # The shell that mpirun starts its daemons with: `shell HOST COMMAND…`.
        cases = [f'{name}) exec {" ".join(map(quoted, self.hosts.words(name)))} sh -c "$*" ;;\n'
                 for name in self.hosts.names]
        self.shell = os.path.join(self.directory, "shell")
        with open(self.shell, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nhost=$1\nshift\ncase $host in\n' + "".join(cases) + "esac\n")
        os.chmod(self.shell, 0o755)

    def mpirun(self, host, *words):
        return self.run_on(host, "mpirun", *words)

    def run_on(self, host, *words):
        """A command on that host, by a user who has set Open MPI up."""
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", NO_COLOR="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm_rsh_agent=self.shell,
                           OMPI_MCA_oob_tcp_if_include="eth0", OMPI_MCA_btl_tcp_if_include="eth0",
                           PATH=f"{os.path.dirname(CPPRUN)}:{os.environ['PATH']}")
        started = self.hosts.start(host, *words, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, cwd=self.directory, env=environment)
        try:
            output = started.communicate(timeout=SECONDS_MAX)[0]
        except subprocess.TimeoutExpired:
            started.terminate()
            output = started.communicate()[0] + f"\n(no end of {words[0]})"
        return started.returncode, output

    def test_the_commands_of_its_page_do_what_it_says(self):
        faults = play(PAGE, self.directory,
                      lambda host, command: self.run_on(host, "sh", "-c", command))
        self.assertEqual(faults, [], "\n".join(faults))

    def test_mpirun_needs_no_flags(self):
        code, said = self.mpirun("h1", "--host", "h1,h2,h3", "-N", "1", CPPRUN,
                                 "--nproc-per-node=2", "--no-python", "sh", "-c", SAY)
        self.assertEqual(code, 0, said)
        ranks = sorted(re.findall(r"rank (\d) of 6 on node (\d) of h(\d) at 10.77.0.1", said))
        self.assertEqual(ranks, [(str(rank), str(rank // 2), str(rank // 2 + 1))
                                 for rank in range(6)], said)
        self.assertEqual(said.count("settings from Open MPI: 3 nodes (OMPI_COMM_WORLD_SIZE)"), 1,
                         said)

    def test_the_host_where_mpirun_runs_hosts_the_rendezvous(self):
        code, said = self.mpirun("h3", "--host", "h1,h2,h3", "-N", "1", CPPRUN, "--no-python",
                                 "sh", "-c", SAY)
        self.assertEqual(code, 0, said)
        ranks = re.findall(r"rank (\d) of 3 on node (\d) of h(\d) at 10.77.0.3", said)
        self.assertEqual(sorted(rank for rank, _, _ in ranks), ["0", "1", "2"], said)
        self.assertEqual(sorted(host for _, _, host in ranks), ["1", "2", "3"], said)
        self.assertTrue(all(rank == node for rank, node, _ in ranks), said)

    def test_a_login_node_causes_a_warning_at_once(self):
        code, said = self.mpirun("h3", "--host", "h1,h2", "-N", "1", CPPRUN,
                                 "--rdzv-conf=join_timeout=2", "--no-python", "sh", "-c", SAY)
        self.assertNotEqual(code, 0, said)
        self.assertIn("if 10.77.0.3 is a login node, use --master-addr=h1", said)
        code, said = self.mpirun("h3", "--host", "h1,h2", "-N", "1", CPPRUN, "--master-addr=h1",
                                 "--no-python", "sh", "-c", SAY)
        self.assertEqual(code, 0, said)
        self.assertNotIn("login node", said)

    def test_more_nodes_than_mpirun_started_are_rejected(self):
        code, said = self.mpirun("h1", "--host", "h1,h2", "-N", "1", CPPRUN, "--nnodes=3",
                                 "--no-python", "sh", "-c", SAY)
        self.assertNotEqual(code, 0, said)
        self.assertIn("--nnodes=3, but Open MPI started cpprun on 2 nodes", said)

    def test_two_on_a_host_are_rejected(self):
        code, said = self.mpirun("h1", "--host", "h1:2,h2:2", "-N", "2", CPPRUN, "--no-python",
                                 "sh", "-c", SAY)
        self.assertNotEqual(code, 0, said)
        self.assertIn("mpirun started 4 tasks on 2 hosts (OMPI_MCA_orte_num_nodes)", said)
        self.assertNotIn("rank ", said)


def quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # CTest's: the hosts are removed
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
