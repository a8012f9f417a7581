#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs every command of a page and compares what it prints with what the page says:

    lab_test.py page.md folder-with-programs... [--only HEADING]

A block fenced with ```console is a scene. A line `$ command` is run by itself; lines `a$ …`, `b$ …`
that follow each other are commands on machines of those names and run at the same time. A
trailing backslash continues a command. Every other line is something the scene must print, in that
order; `…` stands for anything. A block that opens with a line `# exits with 3` says how the last
command (or the worst of several machines) ends; else it is 0. Other fences are not run.

All machines are this one: `machine-a` becomes 127.0.0.1 and port 29500 a free one. The scenes share
one folder that is empty at first, as a reader's would be.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "worker"))
from ranks import free_port

SCENE_SECONDS_MAX = 240
PROMPT = re.compile(r"^(?:([a-z])|)\$ (.*)$")
EXIT = re.compile(r"^# exits with (\d+)$")


class Scene:
    def __init__(self, heading, line):
        self.heading, self.line = heading, line
        self.steps = []  # lists of (machine, command) that run at the same time
        self.expected = []
        self.code = 0

    def add(self, lines):
        index = 0
        while index < len(lines):
            text = lines[index]
            index += 1
            prompt, code = PROMPT.match(text), EXIT.match(text)
            if code:
                self.code = int(code[1])
            elif prompt:
                command = prompt[2]
                while command.endswith("\\"):
                    command = command[:-1] + lines[index].strip()
                    index += 1
                self.add_command(prompt[1], command)
            elif text.strip():
                self.expected.append(text.strip())

    def add_command(self, machine, command):
        together = machine and self.steps and self.steps[-1][-1][0]
        if together and machine not in [each[0] for each in self.steps[-1]]:
            self.steps[-1].append((machine, command))
        else:
            self.steps.append([(machine, command)])


def scenes_of(page):
    scenes, heading, block = [], "", None
    with open(page, encoding="utf-8") as file:
        for number, text in enumerate(file.read().splitlines(), 1):
            if block is not None:
                if text.startswith("```"):
                    scenes[-1].add(block)
                    block = None
                else:
                    block.append(text)
            elif text.startswith("```console"):
                scenes.append(Scene(heading, number))
                block = []
            elif text.startswith("#"):
                heading = text.lstrip("# ")
    return scenes


def matches(expected, output):
    """The first expected line that is not there, or nothing."""
    at = 0
    lines = output.splitlines()
    for line in expected:
        words = " ".join(line.split())
        pattern = re.compile(".*?".join(re.escape(part) for part in words.split("…")))
        while at < len(lines) and not pattern.search(" ".join(lines[at].split())):
            at += 1
        if at == len(lines):
            return line
        at += 1
    return None


def run_scene(scene, folder, environment):
    port = str(free_port())
    output, code = "", 0
    deadline = time.monotonic() + SCENE_SECONDS_MAX
    for step in scene.steps:
        started = []
        for _, command in step:
            command = command.replace("machine-a", "127.0.0.1").replace("29500", port)
            started.append(
                subprocess.Popen(
                    ["/bin/bash", "-c", command], cwd=folder, env=environment, text=True,
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


def main():
    page, folders = sys.argv[1], [os.path.abspath(each) for each in sys.argv[2:]]
    environment = dict(os.environ, OMP_NUM_THREADS="1", NO_COLOR="1")
    environment["PATH"] = ":".join(folders + [environment["PATH"]])
    scenes = scenes_of(page)
    if not scenes:
        sys.exit(f"lab_test: {page} has no ```console block")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lab_") as folder:
        for scene in scenes:
            began = time.monotonic()
            wrong, output = run_scene(scene, folder, environment)
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
