#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the test cases of one or more builds with the list in tests/cases.txt.

    cases.py BUILD…            fails if a case is gone, or is new and not in the list
    cases.py BUILD… --write    writes the list

`./dev test` runs it at its end: the release build has the tests of the finished programs, and the
build with sanitizers has the unit tests.

A case that is renamed, or no longer compiled, does not vanish without a change to the list. A name
filter of a test (--test-case) that matches no case is an error.

The list has one line for each CTest test, and below it, indented, its cases: those of a doctest
program as it lists them, those of a Python test file as its methods are named. Other tests, shell
scripts for instance, are one case each.
"""

import argparse
import ast
import json
import os
import pathlib
import subprocess
import sys
import tempfile


LIST = pathlib.Path(__file__).with_name("cases.txt")
# A build machine may be unable to fetch MPI; it has everything else.
NEED_MPI = ("mpi_test", "worker_mpi_test")


def tests_of(build):
    # CTest replaces the log of the running test, so it runs in a directory of its own.
    with tempfile.TemporaryDirectory() as place:
        (pathlib.Path(place) / "CTestTestfile.cmake").write_text(f'subdirs("{build}")\n')
        text = subprocess.run(
            ["ctest", "--show-only=json-v1", "--test-dir", place],
            check=True, capture_output=True, text=True).stdout
    return {each["name"]: each.get("command") for each in json.loads(text)["tests"]}


def cases_of_program(command):
    """The cases that a doctest program lists; none for other programs."""
    listed = subprocess.run(
        command + ["--list-test-cases", "--no-colors=true"], capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=120)
    lines = listed.stdout.splitlines()
    if not any(line.startswith("[doctest] listing all test case names") for line in lines):
        return None
    rule = next(i for i, line in enumerate(lines) if line.startswith("====="))
    cases = []
    for line in lines[rule + 1:]:
        if line.startswith("====="):
            break
        cases.append(" ".join(line.split()))
    return cases


def cases_of_script(path):
    cases = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            cases += [f"{node.name}.{each.name}" for each in node.body
                      if isinstance(each, ast.FunctionDef) and each.name.startswith("test")]
    return cases


def cases_of(name, command, build):
    if not command:
        return None  # not built
    if pathlib.Path(command[0]).resolve().is_relative_to(build):
        cases = cases_of_program(command)
        if cases is None:
            return []
        if not cases:
            sys.exit(f"{name}: no case has a name that matches {' '.join(command[1:])}")
        return sorted(cases)
    scripts = [pathlib.Path(each) for each in command if each.endswith(".py")]
    return sorted(cases_of_script(scripts[0])) if scripts else []


def written(found):
    lines = []
    for name in sorted(found):
        lines.append(name)
        lines += ["  " + case for case in found[name]]
    return "".join(line + "\n" for line in lines)


def read(path):
    found, name = {}, None
    for line in path.read_text().splitlines():
        if line.startswith("  "):
            found[name].append(line[2:])
        else:
            name = line
            found[name] = []
    return found


def differences(listed, found):
    """Sentences about the differences."""
    for name, cases in listed.items():
        if name not in found:
            yield f"the test {name} is gone, with {len(cases)} cases"
            continue
        there = list(found[name])
        for case in cases:
            if case in there:
                there.remove(case)
            else:
                yield f"{name}: the case \"{case}\" is gone"
        for case in there:
            yield f"{name}: the case \"{case}\" is not in the list"
    for name in found:
        if name not in listed:
            yield f"the test {name} is not in the list"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", type=lambda text: pathlib.Path(text).resolve(), nargs="+")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = {}
    for build in given.builds:
        for name, command in tests_of(build).items():
            cases = cases_of(name, command, build)
            # Where both builds have a test, the first one counts: a few cases need a release build.
            if cases is not None:
                found.setdefault(name, cases)
    if given.write:
        LIST.write_text(written(found))
        return 0
    listed = read(LIST)
    # Tests that need LibTorch, PyTorch or MPI are not configured on every machine.
    absent = sorted(name for name in listed if name not in found
                    and (name in NEED_MPI or not os.environ.get("CI")))
    if absent:
        print(f"skipped: these tests are not part of this build: {', '.join(absent)}")
        for name in absent:
            del listed[name]
    wrong = list(differences(listed, found))
    for sentence in wrong:
        print(sentence)
    if wrong:
        print("If that is meant: ./dev cases, and commit tests/cases.txt with the change.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
