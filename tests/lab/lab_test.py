#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs every command of a page (scenes.py) and compares its output with the page:

    lab_test.py page.md directory-with-programs...

All machines are this one: `machine-a` becomes 127.0.0.1 and port 29500 a free one. The scenes share
one directory that is empty at first, as a reader's would be.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "worker"))
from ranks import free_port
from scenes import matches, scenes_of, write_files

SCENE_SECONDS_MAX = 240
JOB_SECONDS_MAX = 30
# PyTorch 2.13 at the very end of a training that went well, by whatever it was launched, 1 time in
# 10 where the machine is busy: a thread of its process group asks for Python, which is ending.
PYTORCH_ENDS_BADLY = "terminate called without an active exception"
TRIES_MAX = 4


# The job of that command. Jobs of tests that run at the same time are listed, too.
def wait_for_job(command, environment):
    deadline = time.monotonic() + JOB_SECONDS_MAX
    name = re.search(r"--rdzv-id=(\S+)", command)
    while time.monotonic() < deadline:
        listed = subprocess.run(["cpprunctl", "ls", "--names"], env=environment,
                                capture_output=True, text=True).stdout.split()
        if name[1] in listed if name else listed:
            return
        time.sleep(0.05)


def run_scene(scene, directory, environment):
    port = str(free_port())
    output, code = "", 0
    write_files(scene, directory)
    deadline = time.monotonic() + SCENE_SECONDS_MAX
    for step in scene.steps:
        started = []
        for _, command in step:
            command = command.replace("machine-a", "127.0.0.1").replace("29500", port)
            if started and scene.waits:
                wait_for_job(step[0][1], environment)
            started.append(
                subprocess.Popen(
                    ["/bin/bash", "-c", command], cwd=directory, env=environment, text=True,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )
        code = 0
        for process in started:
            try:
                output += process.communicate(timeout=max(1, deadline - time.monotonic()))[0]
            except subprocess.TimeoutExpired:
                for each in started:
                    each.terminate()
                output += f"(no end within {SCENE_SECONDS_MAX} s)\n"
                output += process.communicate()[0]
            code = max(code, process.returncode)
    missing = matches(scene.expected, output)
    if code != scene.code:
        return f"ended with {code} and not with {scene.code}", output
    if missing is not None:
        return f"did not print: {missing}", output
    return None, output


def play(scene, directory, environment):
    wrong, output = run_scene(scene, directory, environment)
    for _ in range(TRIES_MAX - 1):
        if not wrong or PYTORCH_ENDS_BADLY not in output:
            break
        print(f"line {scene.line:4}  PyTorch was aborted as it ended: once more", flush=True)
        wrong, output = run_scene(scene, directory, environment)
    return wrong, output


def main():
    page, directories = sys.argv[1], [os.path.abspath(each) for each in sys.argv[2:]]
    environment = dict(os.environ, OMP_NUM_THREADS="1", NO_COLOR="1")
    environment.pop("CPPRUN_SECRET_FILE", None)
    environment["PATH"] = ":".join(directories + [environment["PATH"]])
    scenes = scenes_of(page)
    if not scenes:
        sys.exit(f"lab_test: {page} has no ```console block")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lab_") as directory:
        # A reader's home directory, and no jobs of other users.
        environment.update(HOME=directory, XDG_RUNTIME_DIR=os.path.join(directory, "run"))
        os.mkdir(environment["XDG_RUNTIME_DIR"], 0o700)
        for scene in scenes:
            began = time.monotonic()
            wrong, output = play(scene, directory, environment)
            seconds = time.monotonic() - began
            verdict = f"FAILED: {wrong}" if wrong else "ok"
            place = f"line {scene.line:4}  {seconds:5.1f} s"
            print(f"{place}  {verdict}  ({scene.heading})", flush=True)
            if wrong:
                failed += 1
                print("\n".join("    " + line for line in output.splitlines()[-40:]))
    kept = len(scenes) - failed
    print(f"lab: {kept} of {len(scenes)} scenes did what {os.path.basename(page)} says")
    sys.exit(1 if failed else 0)


main()
