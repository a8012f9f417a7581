# SPDX-License-Identifier: BSD-3-Clause
"""The cases of the conformance suite, and how both launchers run them.

A case is one command line that torchrun and cpprun both get. Each runs it in a directory of
its own; afterwards the case inspects the result: a dictionary from a facet ("exit",
"WORLD_SIZE", "files") to a value. The two dictionaries have to be equal, except where the case says
that cpprun differs on purpose: then the difference has to be exactly the given one, with its
reason.
"""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from torchrun_server import Launcher

WORKERS = Path(__file__).resolve().parent / "workers"
TIMEOUT = 120  # seconds until a launcher counts as hung; no result depends on it
TOKEN = "CPPRUN_CONFORMANCE_TOKEN"  # every process of a run carries it, wherever it goes


@dataclass
class Differs:
    """What is different on purpose, and why."""

    torchrun: object
    cpprun: object
    why: str


@dataclass
class Mostly:
    """torchrun's result in most runs. In the others it gets further, sometimes as far as
    cpprun, which has to get there every time."""

    value: object


@dataclass
class Case:
    name: str
    args: list  # for both launchers; {dir}, {workers} and {python} are filled in
    see: Callable  # Run -> {facet: value}
    env: dict = field(default_factory=dict)
    differs: dict = field(default_factory=dict)  # facet -> Differs
    torchrun: list = None  # a command line of its own, where the spelling differs
    cpprun: list = None
    nodes: list = None  # further arguments for each of several launchers, in front of the others
    during: Callable = None  # Run -> None, while the launchers run
    since: tuple = (2, 0)  # the release of torch that first knew it; not compared with older ones
    counts_cpus: bool = False  # its workers are as many as the CPUs, so it gets all of them
    timeout: float = TIMEOUT  # a launcher that is still running then counts as hung


@dataclass
class Node:
    process: object  # a subprocess.Popen, or a Launcher
    out: Path
    err: Path
    late: bool = False  # it was still running after the case's timeout


class Run:
    """One launcher's run, or several nodes' runs, in a directory of their own."""

    def __init__(self, case, launcher, command, directory):
        self.launcher = launcher
        self.directory = Path(directory)
        self.logs = self.directory / "logs"
        self.tmp = self.directory / "tmp"
        self.told = self.directory / "told"
        for made in (self.tmp, self.told):
            made.mkdir()
        self.token = f"{os.getpid()}.{self.directory.name}"
        self.nodes = []
        own = case.torchrun if launcher == "torchrun" else case.cpprun
        args = own if own is not None else case.args
        if own and own[0] == "torch.distributed.launch":
            command = []
        self.ports = {}
        for index, more in enumerate(case.nodes or [[]]):
            words = [self.fill(word) for word in command + more + args]
            self.nodes.append(self.start(words, case, index))
        if case.during:
            case.during(self)
        deadline = time.monotonic() + case.timeout
        for node in self.nodes:
            try:
                node.process.wait(max(0.01, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                node.late = True
        for node in self.nodes:
            if node.late:
                node.process.kill()
                node.process.wait()
        self.left = self.processes_stay()
        self.end_the_rest()

    def fill(self, word):
        for name, value in (("dir", self.directory), ("workers", WORKERS)):
            word = word.replace("{%s}" % name, str(value))
        word = word.replace("{python}", PYTHON)
        while "{port}" in word:
            # One for all nodes of the run.
            word = word.replace("{port}", str(self.ports.setdefault("port", free_port())))
        return word

    def start(self, words, case, index):
        # With more workers than CPUs, the first ones are forked as well.
        has_one_cpu = WARM and not case.counts_cpus
        variables = {
            "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "TMPDIR": str(self.tmp),
            "TOLD": str(self.told),
            "PYTHONPATH": str(WORKERS),
            "PYTHON_EXEC": PYTHON,
            TOKEN: self.token,
        }
        if WARM and self.launcher == "cpprun":
            variables["PET_WARM"] = WARM_MODULE
        variables.update({name: self.fill(value) for name, value in case.env.items()})
        out, err = self.directory / f"out{index}", self.directory / f"err{index}"
        if self.launcher == "torchrun":
            process = Launcher(SERVER, words, directory=str(self.directory), env=variables,
                               out=str(out), err=str(err))
            return Node(process, out, err)
        with open(out, "wb") as to_out, open(err, "wb") as to_err:
            process = subprocess.Popen(
                words,
                cwd=self.directory,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
                preexec_fn=(lambda: os.sched_setaffinity(0, {CPU})) if has_one_cpu else None,
            )
        return Node(process, out, err)

    # --- the result ---

    def codes(self):
        """As a shell shows them: 128 + signal."""
        return ["still there" if node.late else shell_code(node.process.returncode)
                for node in self.nodes]

    def out(self):
        return "".join(node.out.read_text(errors="replace") for node in self.nodes)

    def err(self):
        return "".join(node.err.read_text(errors="replace") for node in self.nodes)

    def workers(self):
        """The records that the workers wrote to $TOLD, ordered by restart and rank."""
        found = [json.loads(path.read_text()) for path in self.told.glob("*.json")]
        return sorted(found, key=lambda each: (each["restart"], each["rank"]))

    def wait_for(self, name, count=1):
        """Waits until so many workers have written a file of that pattern to $TOLD."""
        deadline = time.monotonic() + TIMEOUT
        while len(list(self.told.glob(name))) < count:
            if time.monotonic() > deadline or all(n.process.poll() is not None for n in self.nodes):
                return
            time.sleep(0.02)

    def signal(self, number):
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.send_signal(number)

    # --- leftover processes ---

    def relatives(self):
        mark = f"{TOKEN}={self.token}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if mark not in (entry / "environ").read_bytes().split(b"\0"):
                    continue
                if (entry / "comm").read_text().strip() != "job-watchdog":
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def processes_stay(self):
        """Whether processes are left after the time that a healthy launcher needs to clean up."""
        deadline = time.monotonic() + 2
        while self.relatives():
            if time.monotonic() > deadline:
                return True
            time.sleep(0.05)
        return False

    def end_the_rest(self):
        for pid in self.relatives():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def shell_code(code):
    return code if code >= 0 else 128 - code


def free_port():
    while True:
        # Outside the range of ephemeral ports.
        port = 20000 + int.from_bytes(os.urandom(2), "little") % 9000
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
                return port
            except OSError:
                continue


def run_case(case, launcher, command):
    with tempfile.TemporaryDirectory(prefix=f"{launcher}_") as directory:
        run = Run(case, launcher, command, directory)
        if launcher == "cpprun":
            TOLD_FORKED.extend(each["forked"] for each in run.workers() if "forked" in each)
        return case.see(run)


def count_forked():
    """Of cpprun's workers that have told it: how many were forked, and how many there were."""
    return sum(TOLD_FORKED), len(TOLD_FORKED)


# --- the usual looks -----------------------------------------------------------------------------


def both(*looks):
    def see(run):
        found = {}
        for look in looks:
            found.update(look(run))
        return found

    return see


def code(run):
    codes = run.codes()
    return {"exit": codes[0] if len(codes) == 1 else codes}


def none_left(run):
    return {"left over": "processes" if run.left else "none"}


def refused(run):
    """Whether the command line was rejected before any worker started."""
    ran = bool(run.workers())
    return {"outcome": "ran" if ran else "refused", **code(run)}


def variables(*names):
    """The values that the workers saw, in order of rank; what is random is replaced."""

    def see(run):
        return {
            name: [plain(name, worker["env"].get(name)) for worker in run.workers()]
            for name in names
        }

    return see


def plain(name, value):
    if value is None:
        return None
    if name == "MASTER_PORT":
        return "a port"
    if name == "TORCHELASTIC_ERROR_FILE":
        return re.sub(r"^.*/(attempt_)", r"…/\1", value)
    if re.fullmatch(r"[0-9a-f]{16}|[0-9a-f]{8}-[0-9a-f-]{27}", value):
        return "random"
    return value


def arguments(run):
    return {"arguments": [worker["argv"] for worker in run.workers()]}


def files(run):
    """The tree under --log-dir, random letters replaced."""
    return {"files": tree(run.logs)}


def litter(run):
    """What is left in the temporary directory afterwards."""
    return {"temporary files": tree(run.tmp)}


def tree(root):
    found = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    empty = [f"{path.relative_to(root)}/" for path in root.rglob("*")
             if path.is_dir() and not any(path.iterdir())]
    plain_names = map(plain_id, found + empty)
    return sorted(re.sub(r"_[a-zA-Z0-9_]{6,8}/", "_X/", each) for each in plain_names)


def plain_id(path):
    return re.sub(r"\b([0-9a-f]{16}|[0-9a-f]{8}-[0-9a-f-]{27})_", "random_", path)


def content(pattern):
    def see(run):
        found = sorted(run.logs.glob(pattern))
        return {pattern: ["".join(sorted(each.read_text().splitlines(True))) for each in found]}

    return see


def lines(run):
    """The workers' output on the console; cpprun's own messages go to stderr."""
    return {"stdout": sorted(run.out().splitlines())}


def error_lines(run):
    return {"stderr": sorted(each for each in run.err().splitlines() if "said" in each)}


FIELD = re.compile(r"^  (time|host|rank|exitcode|error_file|traceback) *: ?(.*?) *$")


def report(*fields):
    """The fields of the root cause in the failure summary of the last node."""

    def see(run):
        found = {}
        text = run.nodes[-1].err.read_text(errors="replace")
        after = text.rpartition("Root Cause (first observed failure):")[2]
        for line in after.splitlines():
            match = FIELD.match(line)
            if match:
                found.setdefault(match[1], match[2])
        title = re.search(r"^(.*) FAILED$", text, re.M)
        found["title"] = Path(title[1]).name if title else None
        found["exitcode"] = re.sub(r"pid: \d+", "pid: P", found.get("exitcode", ""))
        # A template of torchrun's leaves two spaces before the name of a signal.
        found["exitcode"] = re.sub(r" +", " ", found["exitcode"])
        found["error_file"] = plain("TORCHELASTIC_ERROR_FILE", found.get("error_file", ""))
        if "time" in found:
            found["time"] = re.sub(r"\d", "0", found["time"])
        return {f"report: {name}": found.get(name) for name in fields}

    return see


# Set by the main program: the Python that runs the scripts, and the server of torchrun's forks.
PYTHON = "python3"
SERVER = ""
# All cases with warm workers (--warm); torchrun has none. A worker that was forked has this module,
# which it does not import itself.
WARM = False
WARM_MODULE = "wsgiref"
CPU = min(os.sched_getaffinity(0))
TOLD_FORKED = []
