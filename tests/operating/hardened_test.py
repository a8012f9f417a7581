#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The hardening of cpprund by compiler and linker:

    hardened_test.py CPPRUND

readelf shows it. Skipped, with the reason, without it (Debian's package `binutils`).
"""

import re
import shutil
import subprocess
import sys
import unittest

CPPRUND = sys.argv[1]


def readelf(*words):
    done = subprocess.run(["readelf", "-W", *words, CPPRUND], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=True, timeout=60)
    return done.stdout


def code():
    return subprocess.run(["objdump", "-d", "--no-show-raw-insn", CPPRUND], check=True,
                          capture_output=True, text=True, timeout=120).stdout


@unittest.skipUnless(shutil.which("readelf"), "no readelf here")
class HardenedTest(unittest.TestCase):
    """Each name is a sentence about the program."""

    def test_it_is_loaded_at_a_random_address_each_time(self):
        self.assertRegex(readelf("-h"), r"Type:\s+DYN ")

    def test_relocated_tables_are_read_only_from_the_start(self):
        self.assertIn("GNU_RELRO", readelf("-l"))
        self.assertIn("BIND_NOW", readelf("-d"))

    def test_its_stack_is_not_executable(self):
        self.assertRegex(readelf("-l"), r"GNU_STACK\s.*\sRW\s")

    def test_no_memory_of_it_is_both_writable_and_executable(self):
        self.assertNotRegex(readelf("-l"), r"LOAD\s.*\sRWE\s")

    def test_its_stack_is_guarded_and_its_copies_are_checked(self):
        symbols = readelf("--dyn-syms")
        # Some compilers contain the function that is called when the guard is damaged; it is
        # checked all the same, at an address that belongs to the thread.
        if "__stack_chk_fail" not in symbols:
            self.assertGreater(code().count("%fs:0x28"), 1000)
        checked = sorted(set(re.findall(r"__\w+_chk\b", symbols)))
        print("checked:", " ".join(checked))
        self.assertTrue(checked)

    def test_indirect_jumps_land_only_at_valid_targets(self):
        machine = re.search(r"Machine:\s+(.*)", readelf("-h"))[1]
        if "X86-64" not in machine:
            self.skipTest(f"not asked for on {machine}")
        # The program's own note is set only if every archive has it, including the C library's.
        self.assertGreater(code().count("endbr64"), 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
