# SPDX-License-Identifier: BSD-3-Clause
"""cpprun for Python programs: start jobs, and report progress from workers.

    cpprun.beat(step)      in a worker, after each step: shows that it makes progress
    cpprun.saved(step)     in a worker: the checkpoint of that step is complete
    cpprun.run(args)       start a job and wait for its end
    cpprun.client          the state of running jobs
    cpprun.reconfigure     keeps a worker running when another one is lost
    cpprun.store           a store like PyTorch's TCPStore, and clients of it, also for asyncio
    cpprun.lightning, cpprun.transformers
                           callbacks that call beat() and saved() for these frameworks
    python -m cpprun …     the cpprun program, whose workers run with this Python
    python -m cpprun.shim  have `accelerate launch` and others use cpprun in place of torchrun

beat() and saved() do nothing outside a job. Nothing here needs PyTorch, except the callbacks.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # for type checkers; at run time, __getattr__ loads what is used
    from . import client, store  # noqa: F401
    from ._heartbeat import beat, saved
    from ._launch import JobFailed, run

__all__ = ["JobFailed", "beat", "run", "saved"]

_PID = os.getpid()  # a process that the worker forks has another one
_SOURCES = {"beat": "_heartbeat", "saved": "_heartbeat", "JobFailed": "_launch", "run": "_launch"}


def __getattr__(name: str) -> object:
    # _torchrun may import this package each time Python starts, so the rest is imported late.
    import importlib
    if name in ("_heartbeat", "_launch", "client", "store"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_SOURCES[name]}"), name)
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *_SOURCES, "client", "store"})


if "CPPRUN_HEARTBEAT_FILE" in os.environ:
    # A signal handler may call saved() at any time, even in the middle of the first beat().
    from ._heartbeat import beat, saved  # noqa: F811
