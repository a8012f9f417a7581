# SPDX-License-Identifier: BSD-3-Clause
"""The commands of a page for readers, and the output that it promises.

A block fenced with ```console is a scene. A line `$ command` is run by itself; commands `a$ …`,
`b$ …` that follow each other run at the same time, on machines of those names or in terminals. A
trailing backslash continues a command. Every other line is something the scene must print, in that
order; `…` stands for anything. A block that opens with a line `# exits with 3`, or with the fence
```console exits-with=3, says how the last command (or the worst of several machines) ends; else it
is 0. With ```console waits, the first machine starts a job, the others begin when cpprunctl lists
it, and several commands of one machine run one after the other. A block fenced with a language and
a name, as ```sh job.sh, is a file that the scenes after it find. Other fences are not run.
"""

import os
import re

PROMPT = re.compile(r"^(?:([a-z][a-z0-9]*)|)\$ (.*)$")
EXIT = re.compile(r"^# exits with (\d+)$")
FILE = re.compile(r"^```[a-z]+ ([\w.-]+)$")


class Scene:
    def __init__(self, heading, line, files, words=()):
        self.heading, self.line = heading, line
        self.files = files  # name: text; of the page so far
        self.steps = []  # lists of (machine, command) that run at the same time
        self.expected = []
        codes = [word.partition("=")[2] for word in words if word.startswith("exits-with=")]
        self.code = int(codes[0]) if codes else 0
        self.waits = "waits" in words

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
        machines = [each[0] for each in self.steps[-1]] if together else []
        if together and machine not in machines:
            self.steps[-1].append((machine, command))
        elif together and self.waits:
            at = machines.index(machine)
            self.steps[-1][at] = (machine, f"{self.steps[-1][at][1]}; {command}")
        else:
            self.steps.append([(machine, command)])


def read_page(page):
    """Its scenes, and all of its files."""
    scenes, files, heading = [], {}, ""
    block = done = None  # the lines of a fence that is open, and what takes them
    with open(page, encoding="utf-8") as file:
        for number, text in enumerate(file.read().splitlines(), 1):
            if block is not None:
                if text.startswith("```"):
                    done(block)
                    block = None
                else:
                    block.append(text)
            elif text.startswith("```console"):
                scenes.append(Scene(heading, number, dict(files), text.split()[1:]))
                block, done = [], scenes[-1].add
            elif text.startswith("```"):
                name = FILE.match(text)
                block, done = [], lambda lines, name=name: name and files.update(
                    {name[1]: "\n".join(lines) + "\n"})
            elif text.startswith("#"):
                heading = text.lstrip("# ")
    return scenes, files


def scenes_of(page):
    return read_page(page)[0]


def write_files(scene, directory):
    for name, text in scene.files.items():
        path = os.path.join(directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)


def matches(expected, output):
    """The first expected line that is missing, or nothing."""
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


def play(page, directory, run):
    """Runs the page's scenes in that directory; `run(machine, command)` returns a code and the
    output. Returns what is wrong, with the output; nothing if everything matches the page."""
    faults = []
    for scene in scenes_of(page):
        write_files(scene, directory)
        code, said = 0, ""
        for step in scene.steps:
            outcomes = [run(machine, command) for machine, command in step]
            code = max(each for each, _ in outcomes)
            said += "".join(each for _, each in outcomes)
        missing = matches(scene.expected, said)
        if code != scene.code:
            faults.append(f"line {scene.line}: ended with {code} and not with {scene.code}\n{said}")
        elif missing is not None:
            faults.append(f"line {scene.line}: did not print: {missing}\n{said}")
    return faults
