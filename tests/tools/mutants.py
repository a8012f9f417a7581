#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Changes one line of the product at a time, and checks whether the unit tests fail.

    tests/tools/mutants.py [--count 20] [--seed N] [--room rendezvous/job]
                           [--directory build/mutants]

Works on a clone of HEAD in DIRECTORY, never on your files. For each mutant it builds and runs the
test programs of the room, then prints one line: killed, survived or invalid (does not compile). At
the end it prints the share that was killed, and every survivor with its change. A person has to
judge those: a change without any effect is not a gap in the tests.
"""
import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

# The room, and what tests it, fast ones first: a program, and the directories of its cases.
ROOMS = {
    "proto": ["proto_test"],
    "rendezvous/job": ["rendezvous_test job", "rendezvous_test coordinator", "transcripts_test",
                       "sim_test"],
    "rendezvous/coordinator": ["rendezvous_test coordinator job", "transcripts_test", "sim_test"],
    "rendezvous/hang": ["rendezvous_test hang job"],
    "rendezvous/store": ["rendezvous_test store"],
    "rendezvous/status": ["rendezvous_test status coordinator"],
    "rendezvous/etcd": ["rendezvous_test etcd", "election_sim_test"],
    "launcher/plan": ["launcher_test plan cli preview"],
    "launcher/workers": ["launcher_test workers agent"],
    "launcher/hang": ["launcher_test hang", "sim_test"],
    "launcher/output": ["launcher_test output"],
    "launcher/failure": ["launcher_test failure report"],
    "launcher/report": ["launcher_test report"],
    "launcher/cli": ["launcher_test cli"],
    "launcher/agent": ["launcher_test agent", "sim_test"],
    "launcher/control": ["launcher_test control"],
    "launcher/fanout": ["launcher_test fanout"],
}

# Typical mistakes: a pattern, and its replacement.
MUTATIONS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "),
    (r" == ", " != "), (r" != ", " == "), (r" && ", " || "), (r" \|\| ", " && "),
    (r" \+ ", " - "), (r" - ", " + "), (r"\btrue\b", "false"), (r"\bfalse\b", "true"),
    (r"if \(!", "if ("), (r"\bif \((?=[a-z])", "if (!"), (r"std::min", "std::max"),
    (r"std::max", "std::min"), (r"\+\+(?=[a-z_]+_?;)", "--"), (r"return (?=[a-z_]+\(.*\);$)", ""),
    # A missing statement.
    (r"^( +)([a-z_]+_? (?:\+|-)?= [^;]*;)$", r"\1// \2"),
    (r"^( +)([a-z_.]+(?:->|\.)?[a-z_]+\([^;]*\);)$", r"\1// \2"),
]


def run(command, cwd, seconds=1800):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return 124, f"not done after {seconds} s"


def places(tree, room):
    """All possible mutants of that room: (file, line number, changed line)."""
    found = []
    names = subprocess.run(["git", "ls-files", f"{room}/*.cpp"], cwd=tree, check=True,
                           capture_output=True, text=True).stdout.split()
    for name in names:
        if "/io/" in name:
            continue  # effects are tested from outside
        with open(os.path.join(tree, name), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines):
            code = re.sub(r'"(\\.|[^"\\])*"', lambda text: '"' + "_" * (len(text[0]) - 2) + '"',
                          line)
            if re.match(r"\s*(//|#|CPPRUN|static_assert|template|constexpr)", code):
                continue
            for pattern, instead in MUTATIONS:
                for match in re.finditer(pattern, code):
                    changed = line[:match.start()] + match.expand(instead) + line[match.end():]
                    if changed != line:
                        found.append((name, number, changed))
    return found


def judge(tree, build, programs, jobs):
    """'killed by …', 'survived' or 'invalid'."""
    for each in programs:
        program, *directories = each.split()
        code, said = run(["ninja", "-C", build, f"-j{jobs}", program], tree)
        if code != 0:
            return "invalid" if "error:" in said else f"killed by the build of {program}"
        path = subprocess.run(["find", build, "-name", program, "-type", "f"],
                              capture_output=True, text=True, check=True).stdout.split()[0]
        cases = ",".join(f"*/tests/*/{directory}/*" for directory in directories)
        command = [path, f"--source-file={cases}"] if cases else [path]
        with subprocess.Popen(command, cwd=os.path.dirname(path), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True,
                              env=os.environ | {"CPPRUN_SOURCE_DIRECTORY": tree}) as test:
            try:
                code = test.wait(timeout=300)
            except subprocess.TimeoutExpired:
                return f"killed by {program} (hangs)"
            finally:  # its children too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(test.pid, signal.SIGKILL)
        if code != 0:
            return f"killed by {program}"
    return "survived"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--room", action="append", choices=sorted(ROOMS))
    parser.add_argument("--directory", default="build/mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    wanted = parser.parse_args()
    directory = os.path.abspath(wanted.directory)
    tree, build = os.path.join(directory, "tree"), os.path.join(directory, "build")
    if not os.path.isdir(tree):
        subprocess.run(["git", "clone", "--quiet", ".", tree], check=True)
    subprocess.run(["git", "fetch", "--quiet"], cwd=tree, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True,
                          check=True).stdout.strip()
    subprocess.run(["git", "checkout", "--quiet", "--force", head], cwd=tree, check=True)
    code, said = run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                      "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCPPRUN_WORKER=OFF", "-DCPPRUN_UNITY=OFF"],
                     tree)
    if code != 0:
        sys.exit(said)
    rooms = wanted.room or sorted(ROOMS)
    draw = random.Random(wanted.seed)
    choices = {room: places(tree, room) for room in rooms}
    print(f"seed {wanted.seed}, {sum(map(len, choices.values()))} possible mutants, commit {head}",
          flush=True)
    for room in rooms:  # the tests must pass before anything is changed
        verdict = judge(tree, build, ROOMS[room], wanted.jobs)
        if verdict != "survived":
            sys.exit(f"{room}: its tests fail without a mutant: {verdict}")
    verdicts, survivors = [], []
    while len(verdicts) < wanted.count:
        room = draw.choice([each for each in rooms for _ in range(1 + len(choices[each]) // 100)])
        name, number, changed = draw.choice(choices[room])
        path = os.path.join(tree, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        before, lines[number] = lines[number], changed
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        try:
            verdict = judge(tree, build, ROOMS[room], wanted.jobs)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        change = f"{name}:{number + 1}: {before.strip()}  →  {changed.strip()}"
        print(f"{verdict:32} {change}", flush=True)
        if verdict == "invalid":
            continue
        verdicts.append(verdict)
        if verdict == "survived":
            survivors.append(change)
    killed = len(verdicts) - len(survivors)
    print(f"\n{killed} of {len(verdicts)} killed ({100 * killed / len(verdicts):.0f} %)")
    for each in survivors:
        print(f"survived: {each}")


if __name__ == "__main__":
    main()
