#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples over MPI, started by mpirun:

    mpi_test.py CPPRUN MESSAGES DIGITS DATA_PARALLEL WORKER_MPI_TEST

Skipped, with the reason, where there is no mpirun. Only the standard library."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import mpirun
from ranks import run_ranks

CPPRUN, MESSAGES, DIGITS, DATA_PARALLEL, CASES = sys.argv[1:]
REASON = mpirun.why_not()
HINT = "start every rank with one mpirun"


@unittest.skipIf(REASON, REASON)
class MpiTest(unittest.TestCase):
    """Each name is a sentence about the worker library over MPI."""

    maxDiff = None

    def test_messages_prints_the_same_over_mpi_and_over_gloo(self):
        code, over_mpi = mpirun.run(4, [MESSAGES, "--backend", "mpi"])
        self.assertEqual(code, 0, over_mpi)
        over_gloo = run_ranks([[MESSAGES, "--backend", "gloo"]] * 4)
        self.assertEqual(over_gloo[0].code, 0, over_gloo[0].output)
        self.assertEqual(over_mpi, over_gloo[0].output)
        self.assertIn("rank 3 is rank 1 of the group 1+3 and holds its sum [4]", over_mpi)

    def test_digits_learns_the_same_over_mpi_and_over_gloo(self):
        words = [DIGITS, "--epochs", "2", "--backend"]
        code, over_mpi = mpirun.run(2, words + ["mpi"])
        self.assertEqual(code, 0, over_mpi)
        over_gloo = run_ranks([words + ["gloo"]] * 2)
        self.assertEqual(over_gloo[0].code, 0, over_gloo[0].output)
        figures = re.compile(r"loss \S+|\d+\.\d+ %")
        found = figures.findall(over_mpi)
        self.assertGreaterEqual(len(found), 2, over_mpi)
        self.assertEqual(found, figures.findall(over_gloo[0].output))

    def test_data_parallel_runs_over_mpi(self):
        code, said = mpirun.run(2, [DATA_PARALLEL, "--images", "8", "--batch-size", "4", "--width",
                                    "2", "--backend", "mpi"])
        self.assertEqual(code, 0, said)
        self.assertRegex(said, r"2 processes on one machine, DDP +\d+\.\d+ +\d+\.\d+")
        self.assertIn("ms/batch", said)

    def test_one_rank_needs_no_mpirun(self):
        ended = subprocess.run([DIGITS, "--epochs", "1", "--backend", "mpi"], capture_output=True,
                               text=True, timeout=mpirun.SECONDS_MAX, check=False)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)

    def test_workers_below_one_process_of_mpirun_are_rejected(self):
        code, said = mpirun.run(1, [CPPRUN, "--no-scheduler", "--standalone", "--nproc-per-node=2",
                                    "--no-python", MESSAGES, "--backend", "mpi"])
        self.assertNotEqual(code, 0, said)
        self.assertIn("MPI_COMM_WORLD has 1 process, but the job has 2 ranks", said)
        self.assertIn(HINT, said)

    def test_workers_that_share_a_process_of_mpirun_are_rejected(self):
        # As many as MPI has, but below one process each.
        code, said = mpirun.run(2, [CPPRUN, "--no-scheduler", "--standalone", "--nproc-per-node=2",
                                    "--no-python", MESSAGES, "--backend", "mpi"])
        self.assertNotEqual(code, 0, said)
        self.assertRegex(said, "ranks 0 and 1 of the group are both "
                               r"process [01] of MPI_COMM_WORLD")

    def test_workers_without_mpirun_are_rejected(self):
        ended = subprocess.run(
            [CPPRUN, "--standalone", "--nproc-per-node=2", "--no-python", MESSAGES, "--backend",
             "mpi"], capture_output=True, text=True, timeout=mpirun.SECONDS_MAX, check=False)
        said = ended.stdout + ended.stderr
        self.assertNotEqual(ended.returncode, 0, said)
        self.assertIn(HINT, said)

    def test_a_rank_that_gave_up_a_collective_exits_without_waiting_and_mpirun_fails(self):
        with tempfile.TemporaryDirectory(prefix="cpprun-mpi-") as directory:
            code, said = mpirun.run(3, [CASES, "--test-case=*given up for good*"],
                                    CPPRUN_TEST_DIRECTORY=directory)
        self.assertNotEqual(code, 0, said)
        self.assertIn('exited without calling "finalize"', said)
        self.assertIn("2 passed", said)

    def test_a_rank_that_fails_ends_all_ranks(self):
        code, said = mpirun.run(3, [DIGITS, "--epochs", "50", "--fail-at-epoch", "1", "--fail-rank",
                                    "1", "--backend", "mpi"])
        self.assertNotEqual(code, 0, said)
        self.assertNotIn("no end within", said)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    unittest.main(argv=sys.argv[:1], verbosity=2)
