# SPDX-License-Identifier: BSD-3-Clause
"""Starts the cpprun program as a child, from a command line or from torchrun's arguments."""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence

# torchrun's arguments, by the names in its argparse.Namespace, with the values that change nothing.
_DEFAULTS: dict[str, tuple] = {
    "nnodes": ("1:1", "1"),
    "nproc_per_node": ("1", 1),
    "rdzv_backend": ("static",),
    "rdzv_endpoint": ("",),
    "rdzv_id": ("none",),
    "rdzv_conf": ("",),
    "max_restarts": (0, "0"),
    "monitor_interval": (0.1, 5),
    "start_method": ("spawn",),
    "event_log_handler": ("null",),
    "role": ("default",),
    "log_dir": (),
    "redirects": ("0",),
    "tee": ("0",),
    "local_ranks_filter": ("",),
    "duplicate_stdout_filters": ([], ""),
    "duplicate_stderr_filters": ([], ""),
    "node_rank": (0, "0"),
    "master_addr": ("127.0.0.1",),
    "master_port": (),
    "local_addr": (),
    "logs_specs": (),
    "numa_binding": (),
    "signals_to_handle": ("SIGTERM,SIGINT,SIGHUP,SIGQUIT",),
    "shutdown_timeout": (),
}
_SWITCHES = ("standalone", "module", "no_python", "run_path", "virtual_local_rank")


class JobFailed(RuntimeError):
    """The job did not end with 0. cpprun has already printed the failure report."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"the job failed with exit code {exit_code}; see the report above")
        self.exit_code = exit_code


def find_program(name: str = "cpprun") -> str:
    """The path of the installed program: of this environment, of this user, or on PATH."""
    directories = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    user_scheme = f"{os.name}_user"
    if user_scheme in sysconfig.get_scheme_names():
        directories.append(sysconfig.get_path("scripts", user_scheme))
    for directory in directories:
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        searched = ", ".join(dict.fromkeys(directories))
        raise FileNotFoundError(
            f"the program {name} is neither in {searched} nor on PATH; install it with this "
            "package: pip install --force-reinstall cpprun")
    return found


def launch_environment() -> dict[str, str]:
    """This environment; the workers use this Python unless PYTHON_EXEC names another one."""
    environment = dict(os.environ)
    if sys.executable:
        environment.setdefault("PYTHON_EXEC", sys.executable)
    return environment


def _command_line(args: argparse.Namespace, explicit: Sequence[str] = ()) -> list[str]:
    words = []
    # Without --node-rank, cpprun finds the rank of a node by itself; torchrun takes 0.
    if (getattr(args, "rdzv_backend", "static") == "static"
            and getattr(args, "nnodes", "1") not in _DEFAULTS["nnodes"]):
        explicit = [*explicit, "node_rank"]
    for name, defaults in _DEFAULTS.items():
        value = getattr(args, name, None)
        if value is None or (value in defaults and name not in explicit):
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        words.append(f"--{name.replace('_', '-')}={value}")
    words += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(args, name, False)]
    if not getattr(args, "use_env", True):  # the parser of torch.distributed.launch
        words.append("--pass-local-rank=local-rank")
    return [*words, str(args.training_script), *map(str, args.training_script_args)]


_PR_SET_PDEATHSIG = 1
_ENDS_A_JOB = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WITHOUT_HANDLER = (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)  # others use these, too


def run(args: argparse.Namespace | Sequence[str] | None = None) -> None:
    """Starts a job as `cpprun` would, and returns when it has ended with 0.

    `args`: a command line such as ["--nproc-per-node=2", "train.py"], or the namespace that
    torchrun's parser returns, so this replaces torch.distributed.run.run(). None: sys.argv.
    SIGINT, SIGTERM and SIGHUP of this process are forwarded if this is its main thread and they
    are not ignored; so are SIGQUIT, SIGUSR1 and SIGUSR2, unless this process handles them. If this
    process is killed, cpprun gets SIGTERM.

    Raises JobFailed, which has the job's exit code, and FileNotFoundError without the program.
    """
    launch(words_of(args))


def words_of(args: argparse.Namespace | Sequence[str] | None,
             explicit: Sequence[str] = ()) -> list[str]:
    """The arguments of cpprun, from those of run(). `explicit`: passed even with torchrun's
    default value, where cpprun may have another one."""
    if isinstance(args, argparse.Namespace):
        return _command_line(args, explicit)
    if isinstance(args, str):
        raise TypeError('args is a list of words, such as ["--nproc-per-node=2", "train.py"]')
    return list(sys.argv[1:] if args is None else args)


def launch(words: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    """run() with cpprun's own arguments, and variables added to its environment."""
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl

    def end_with_parent() -> None:  # between fork and exec
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)

    child = subprocess.Popen([find_program(), *words], preexec_fn=end_with_parent,
                             env={**launch_environment(), **(variables or {})})
    has_terminal = _foreground_group() is not None
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (*_ENDS_A_JOB, *_WITHOUT_HANDLER):
            handler = signal.getsignal(number)
            # None: not from Python. SIG_IGN: as SIGHUP under nohup.
            if handler is None or handler == signal.SIG_IGN:
                continue
            if number in _WITHOUT_HANDLER and (handler != signal.SIG_DFL or _is_caught(number)):
                continue
            before[number] = signal.signal(
                number, lambda got, _: _forward(child, got, has_terminal))
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code != 0:
        raise JobFailed(code if code > 0 else 128 - code)


def _is_caught(number: int) -> bool:
    """Whether there is a handler in C, such as faulthandler's, which Python does not know."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            caught = next(line for line in status if line.startswith("SigCgt:"))
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)
    except (OSError, StopIteration, ValueError, IndexError):
        return True


def _forward(child: subprocess.Popen, number: int, has_terminal: bool) -> None:
    # cpprun gets the terminal's signals too: SIGHUP, and Ctrl-C and Ctrl-\ in the foreground.
    # Forwarded, they would be second signals, which kill the workers.
    if number == signal.SIGHUP and has_terminal:
        return
    is_typed = number in (signal.SIGINT, signal.SIGQUIT)
    if is_typed and _foreground_group() == os.getpgrp():
        return
    child.send_signal(number)


def _foreground_group() -> int | None:
    """The process group in the foreground of this process's terminal; None without a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None
    finally:
        os.close(terminal)
