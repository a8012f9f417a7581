# SPDX-License-Identifier: BSD-3-Clause
"""The same command lines under torchrun and under cpprun: what is the same, what is different on
purpose, and whether anything else is different.

    conformance.py [--warm] PATH_TO_CPPRUN [PART OF A NAME]

Prints a table and a score; exits with 1 if there is an unintended difference. With --warm, cpprun
has warm workers in every case, and at least one has to be forked.
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time
import traceback

try:
    import torch.distributed.run  # noqa: F401
    from torch import __version__ as torch_version
except ImportError as missing:
    print(f"skipped: {sys.executable} has no torchrun: {missing}")
    sys.exit(77)

import cases
import torchrun_server
import command_line
import endings
import logs
import meetings

GROUPS = (("The command line", command_line), ("Logs", logs), ("Endings", endings),
          ("Meetings", meetings))


def observe(case, launcher, command):
    try:
        return cases.run_case(case, launcher, command)
    except Exception:
        return {"the case itself": traceback.format_exc()}


def judge(case, torchrun, cpprun):
    """Returns (verdict, [(facet, torchrun, cpprun, why)])."""
    purposeful, wrong = [], []
    for facet in sorted(set(torchrun) | set(cpprun)):
        theirs, ours = torchrun.get(facet, "not seen"), cpprun.get(facet, "not seen")
        meant = case.differs.get(facet)
        if meant:
            usual = meant.torchrun
            if isinstance(usual, cases.Mostly):
                usual = theirs
            if (theirs, ours) == (usual, meant.cpprun):
                purposeful.append((facet, theirs, ours, meant.why))
            else:
                wrong.append((facet, theirs, ours,
                              f"meant: {meant.torchrun!r} against {meant.cpprun!r}"))
        elif theirs != ours:
            wrong.append((facet, theirs, ours, "not meant"))
    if wrong:
        return "DIFFERENT", wrong
    return ("on purpose", purposeful) if purposeful else ("same", [])


def short(value, width):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def in_short(seen):
    """What the table shows for a launcher: the exit code, or else the first facet."""
    if "exit" in seen:
        return short(f"exit {seen['exit']}", 14)
    return short(str(next(iter(seen.values()), "")), 14)


def main():
    began = time.monotonic()
    cases.PYTHON = sys.executable
    if "--warm" in sys.argv:
        sys.argv.remove("--warm")
        cases.WARM = True
    with tempfile.TemporaryDirectory(prefix="conformance_") as directory:
        cases.SERVER = f"{directory}/torchrun"
        words = [sys.executable, torchrun_server.__file__, cases.SERVER]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            try:
                return compare(began)
            finally:
                server.terminate()


def compare(began):
    cpprun = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    launchers = {"torchrun": ["torch.distributed.run"], "cpprun": [cpprun]}
    score = {"same": 0, "on purpose": 0, "DIFFERENT": 0}
    version = tuple(map(int, torch_version.split(".")[:2]))
    chosen = [(group, case) for group, module in GROUPS for case in module.CASES
              if wanted in case.name]
    newer = [case for _, case in chosen if case.since > version]
    chosen = [(group, case) for group, case in chosen if case not in newer]
    with concurrent.futures.ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        seen = {
            (case.name, launcher): pool.submit(observe, case, launcher, command)
            # The longest are the last: they start first.
            for _, case in reversed(chosen) for launcher, command in launchers.items()
        }
        last = None
        for group, case in chosen:
            if group != last:
                print(f"\n{group:<62} {'torchrun':<15} {'cpprun':<15} verdict\n{'-' * 105}")
                last = group
            theirs = seen[case.name, "torchrun"].result()
            ours = seen[case.name, "cpprun"].result()
            verdict, differences = judge(case, theirs, ours)
            score[verdict] += 1
            print(f"{short(case.name, 61):<62} {in_short(theirs):<15} {in_short(ours):<15} "
                  f"{verdict}")
            for facet, their, our, why in differences:
                width = 60 if verdict == "on purpose" else 2000
                print(f"    {facet}: {short(their, width)} → {short(our, width)}\n      {why}")
            sys.stdout.flush()
    for case in newer:
        print(f"not compared: \"{case.name}\" needs torchrun {'.'.join(map(str, case.since))}")
    if cases.WARM:
        forked, started = cases.count_forked()
        print(f"\n{forked} of {started} workers that told it were forked")
        score["DIFFERENT"] += forked == 0
    return summary(len(chosen), score, time.monotonic() - began)


def summary(count, score, seconds):
    bad = score["DIFFERENT"]
    print(f"\ntorch {torch_version}: {count} cases: {score['same']} the same, "
          f"{score['on purpose']} different on purpose, {bad} different otherwise")
    # In the format that the tally reads.
    print(f"Ran {count} tests in {seconds:.1f}s")
    print(f"FAILED (failures={bad})" if bad else "OK")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
