#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What compiler and linker have put into cpprund against mistakes of ours:

    hardened_test.py CPPRUND

readelf tells. Skipped, with the reason, where there is none (Debian's package `binutils`).
"""

import re
import shutil
import subprocess
import sys
import unittest

CPPRUND = sys.argv[1]


def told(*words):
    done = subprocess.run(["readelf", "-W", *words, CPPRUND], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=True, timeout=60)
    return done.stdout


def code():
    return subprocess.run(["objdump", "-d", "--no-show-raw-insn", CPPRUND], check=True,
                          capture_output=True, text=True, timeout=120).stdout


@unittest.skipUnless(shutil.which("readelf"), "no readelf here")
class HardenedTest(unittest.TestCase):
    """Each name is a sentence about the program."""

    def test_it_lies_elsewhere_in_memory_each_time(self):
        self.assertRegex(told("-h"), r"Type:\s+DYN ")

    def test_what_the_linker_has_filled_in_is_read_only_from_the_start(self):
        self.assertIn("GNU_RELRO", told("-l"))
        self.assertIn("BIND_NOW", told("-d"))

    def test_its_stack_is_not_executed(self):
        self.assertRegex(told("-l"), r"GNU_STACK\s.*\sRW\s")

    def test_nothing_of_it_is_both_written_and_executed(self):
        self.assertNotRegex(told("-l"), r"LOAD\s.*\sRWE\s")

    def test_its_stack_is_guarded_and_its_copies_are_checked(self):
        symbols = told("--dyn-syms")
        # Some compilers bring along what is called when the guard is gone; it is asked for all the
        # same, at an address that belongs to the thread.
        if "__stack_chk_fail" not in symbols:
            self.assertGreater(code().count("%fs:0x28"), 1000)
        checked = sorted(set(re.findall(r"__\w+_chk\b", symbols)))
        print("checked:", " ".join(checked))
        self.assertTrue(checked)

    def test_jumps_land_only_where_some_are_meant_to(self):
        machine = re.search(r"Machine:\s+(.*)", told("-h"))[1]
        if "X86-64" not in machine:
            self.skipTest(f"not asked for on {machine}")
        # The program's own note says so only if every archive does, the C library's among them.
        self.assertGreater(code().count("endbr64"), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
