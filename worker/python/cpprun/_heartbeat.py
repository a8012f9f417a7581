# SPDX-License-Identifier: BSD-3-Clause
"""Writes a worker's heartbeats. proto/heartbeat_file.h describes the file: 264 bytes of memory.

An older cpprun creates a file of 64 bytes, which has no room for the total and the metrics.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
import time
from collections import defaultdict
from itertools import count

from . import _PID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import SupportsFloat, SupportsInt

_SIZE_MIN, _SIZE = 64, 264
_HEAD = struct.Struct("=8sIii")   # magic, version, rank, pid
_CHECKPOINT_SECONDS, _BEATS, _CHECKPOINT_STEP = 20, 24, 56
_BODY = struct.Struct("=QqQQ")    # beats, time of the last one, step, samples
_LARGEST = 2**64 - 1
# After the first 64 bytes, in words of 8 bytes: the total; then, for each metric, its name (two
# words) and its value.
_METRICS_MAX, _METRIC_WORDS = 8, 3
_NAME_BYTES = 16
_NAME_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/")


class _Heartbeat:
    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may call saved() in the middle of beat()
        self.beats = self.step = self.samples = 0
        # The metrics by name, numbered when they are first looked up. That is one C call, which no
        # signal handler can interrupt.
        self.metrics: defaultdict[str, int] = defaultdict(count().__next__)
        self.has_noted = False
        self.rank = os.environ.get("RANK", "0")
        # The words after the first 64 bytes, as whole numbers and as floating-point numbers. A
        # write to a word is atomic, so a reader never sees half of it.
        self.words: memoryview[int] | None = None
        self.values: memoryview[float] | None = None
        path = os.environ.get("CPPRUN_HEARTBEAT_FILE", "")
        self.memory = self._map(path) if os.getpid() == _PID else None

    def _map(self, path: str) -> mmap.mmap | None:
        if not path:
            return None
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                has_room = os.fstat(file).st_size >= _SIZE
                memory = mmap.mmap(file, _SIZE if has_room else _SIZE_MIN)
            finally:
                os.close(file)
            if has_room:
                # A program that ran before may have written metrics.
                memory[_SIZE_MIN:_SIZE] = bytes(_SIZE - _SIZE_MIN)
                rest = memoryview(memory)[_SIZE_MIN:_SIZE]
                self.words, self.values = rest.cast("Q"), rest.cast("d")
            _HEAD.pack_into(memory, 0, b"CPPRUNHB", 2, int(self.rank), os.getpid())
        except (OSError, ValueError, struct.error) as error:
            self._note(f"heartbeats are off: cannot write \"{path}\": {error}")
            return None
        return memory

    def _note(self, text: str) -> None:
        try:
            if sys.stderr is not None:
                print(f"rank {self.rank}: {text}", file=sys.stderr)
        except (OSError, ValueError):
            pass  # stderr is closed

    def beat(self, step: object, total: object, samples: object,
             metrics: Mapping[str, object]) -> None:
        if self.memory is None or os.getpid() != _PID:
            return
        with self.lock:
            if self.words is not None and total is not None:
                self.words[0] = _number(total)
            if metrics:
                self._write(metrics, is_quiet=False)
            self.beats += 1
            self.step = self.step if step is None else _number(step)
            self.samples = self.samples if samples is None else _number(samples)
            _BODY.pack_into(self.memory, _BEATS, self.beats, time.monotonic_ns(), self.step,
                            self.samples)

    def logged(self, metrics: Mapping[str, object]) -> None:
        if self.memory is None or os.getpid() != _PID:
            return
        with self.lock:
            self._write(metrics, is_quiet=True)

    def _write(self, metrics: Mapping[str, object], is_quiet: bool) -> None:
        if self.words is None or self.values is None:
            return
        for name, value in metrics.items():
            problem = "" if name in self.metrics else self._problem(name)
            if problem:
                if not is_quiet and not self.has_noted:
                    self.has_noted = True
                    shown = name[:40].encode("unicode_escape").decode()
                    self._note(f"metric \"{shown}\" is ignored: {problem}")
                continue
            try:
                # PyTorch prints a warning if a tensor with a gradient becomes a number.
                detach = getattr(value, "detach", None)
                number = float(value if detach is None else detach())  # type: ignore[arg-type]
            except Exception:  # of a type that we do not know, such as a tensor
                continue
            index = self.metrics[name]
            if index >= _METRICS_MAX:  # a signal handler took the last one
                continue
            word = 1 + _METRIC_WORDS * index
            self.values[word + 2] = number
            if self.words[word] == 0:
                # The value first, and the first character last: a reader sees all or nothing.
                padded = name.encode().ljust(_NAME_BYTES, b"\0")
                self.words[word + 1] = int.from_bytes(padded[8:], sys.byteorder)
                self.words[word] = int.from_bytes(padded[:8], sys.byteorder)

    def _problem(self, name: object) -> str:
        """Why a new metric cannot have that name, or ""."""
        if not isinstance(name, str) or not 1 <= len(name) <= _NAME_BYTES:
            return f"its name does not have 1 to {_NAME_BYTES} characters"
        if not _NAME_CHARACTERS.issuperset(name):
            return "its name has characters other than letters, digits, _ . - and /"
        if len(self.metrics) >= _METRICS_MAX:
            return f"this worker already reports {_METRICS_MAX} metrics, the maximum"
        return ""

    def saved(self, step: object) -> None:
        if self.memory is None or os.getpid() != _PID:
            return
        with self.lock:
            struct.pack_into("=Q", self.memory, _CHECKPOINT_STEP, _number(step))
            struct.pack_into("=I", self.memory, _CHECKPOINT_SECONDS, int(time.monotonic()))


def _number(value: object) -> int:
    """A step as the file can hold it. A wrong one must not end a training: it counts as unknown."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except Exception:  # of a type that we do not know, such as a tensor
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


def beat(step: SupportsInt | None = None, total: SupportsInt | None = None, *,
         samples: SupportsInt | None = None, **metrics: SupportsFloat) -> None:
    """Shows cpprun that this worker makes progress. Call it after each step; it takes microseconds.

    `step`: the last complete step; without steps, the calls count. `total`: the number of steps
    that this training plans, over all restarts. `samples`: how many samples were used so far, over
    all restarts. `metrics`: up to 8 numbers of your own, such as loss=0.31, whose names have at
    most 16 letters, digits, _ . - and /. What a call leaves out keeps its last value.

    A tensor on a GPU is copied from there, which waits for the GPU. From any thread. Does nothing
    outside a job and in a process that the worker forked. Wrong values are ignored.
    """
    _of_this_process().beat(step, total, samples, metrics)


def logged(metrics: Mapping[str, object]) -> None:
    """Reports a framework's metrics, as beat() does. Ignores those that do not fit, silently."""
    _of_this_process().logged(metrics)


def saved(step: SupportsInt) -> None:
    """Tells cpprun that the checkpoint of that step is complete, also after loading one."""
    _of_this_process().saved(step)
