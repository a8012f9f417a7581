# SPDX-License-Identifier: BSD-3-Clause
"""Writes a worker's heartbeats. proto/heartbeat_file.h describes the file: 64 bytes of memory."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
import time

from . import _PID

_SIZE = 64
_HEAD = struct.Struct("=8sIii")   # magic, version, rank, pid
_CHECKPOINT_SECONDS, _BEATS, _CHECKPOINT_STEP = 20, 24, 56
_BODY = struct.Struct("=QqQQ")    # beats, time of the last one, step, samples
_LARGEST = 2**64 - 1


class _Heartbeat:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may call saved() in the middle of beat()
        self.beats = self.step = self.samples = 0
        path = os.environ.get("CPPRUN_HEARTBEAT_FILE", "")
        self.memory = self._map(path) if os.getpid() == _PID else None

    @staticmethod
    def _map(path: str) -> mmap.mmap | None:
        if not path:
            return None
        rank = os.environ.get("RANK", "0")
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                memory = mmap.mmap(file, _SIZE)
            finally:
                os.close(file)
            _HEAD.pack_into(memory, 0, b"CPPRUNHB", 2, int(rank), os.getpid())
        except (OSError, ValueError, struct.error) as error:
            print(f"rank {rank}: heartbeats are off: cannot write \"{path}\": {error}",
                  file=sys.stderr)
            return None
        return memory

    def beat(self, step: int | None, samples: int | None) -> None:
        if self.memory is None or os.getpid() != _PID:
            return
        with self.lock:
            self.beats += 1
            self.step = self.step if step is None else _number(step)
            self.samples = self.samples if samples is None else _number(samples)
            _BODY.pack_into(self.memory, _BEATS, self.beats, time.monotonic_ns(), self.step,
                            self.samples)

    def saved(self, step: int) -> None:
        if self.memory is None or os.getpid() != _PID:
            return
        with self.lock:
            struct.pack_into("=Q", self.memory, _CHECKPOINT_STEP, _number(step))
            struct.pack_into("=I", self.memory, _CHECKPOINT_SECONDS, int(time.monotonic()))


def _number(value: object) -> int:
    """A step as the file can hold it. A wrong one must not end a training: it counts as unknown."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number <= _LARGEST else 0


_heartbeat: _Heartbeat | None = None
_making = threading.RLock()


def _of_this_process() -> _Heartbeat:
    global _heartbeat
    if _heartbeat is None:
        with _making:
            if _heartbeat is None:
                _heartbeat = _Heartbeat()
    return _heartbeat


def beat(step: int | None = None, *, samples: int | None = None) -> None:
    """Shows cpprun that this worker makes progress. Call it after each step; it takes microseconds.

    `step`: the last complete step; without steps, the calls count. `samples`: how many samples
    were used so far, over all restarts. From any thread. Does nothing outside a job and in a
    process that the worker forked.
    """
    _of_this_process().beat(step, samples)


def saved(step: int) -> None:
    """Tells cpprun that the checkpoint of that step is complete, also after loading one."""
    _of_this_process().saved(step)
