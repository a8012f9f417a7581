# SPDX-License-Identifier: BSD-3-Clause
"""Keeps this worker running when another one is lost (cpprun --on-failure=reconfigure).

    for place in Rounds():          # once more, in the same process, after a worker was lost
        with place:
            train()                 # the process group consists of the workers of this round

Needs PyTorch and nothing of cpprun, so this file may be copied into a project. With PyTorch 2.14
and later, the process group changes its members; with older versions, it is created anew.
"""

import os
import queue
import socket
import threading
from datetime import timedelta

import torch.distributed as dist


class _Store(dist.Store):
    """The store of the current round, for a process group that outlives it."""

    now = None  # replaced in each round

    def set(self, key, value): self.now.set(key, value)
    def get(self, key): return self.now.get(key)
    def add(self, key, amount): return self.now.add(key, amount)
    def check(self, keys): return self.now.check(keys)
    def wait(self, keys, *timeout): self.now.wait(keys, *timeout)
    def compare_set(self, key, expected, value): return self.now.compare_set(key, expected, value)


class Rounds:
    """The rounds of this worker, until one ends without an error.

    `place` has the variables of the round, such as RANK, which are in os.environ too. After an
    error, waits `wait_seconds` for the message that the round is broken. If there is none, the
    error is this worker's own, and is raised.
    """

    def __init__(self, backend="gloo", timeout=timedelta(minutes=10), wait_seconds=60):
        self._backend, self._timeout, self._wait_seconds = backend, timeout, wait_seconds
        self._places, self._news = queue.SimpleQueue(), threading.Condition()
        self._round = self._broken_round = 0
        self._store, self._before, self._own = _Store(), set(), None
        self._has_group = self._is_done = self._is_inside = False
        self.place = {}
        self._line = None
        if "CPPRUN_ROUND_SOCKET" not in os.environ:  # not under this launcher: a single round
            self._places.put(None)
            return
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.connect(os.environ["CPPRUN_ROUND_SOCKET"])
        self._send_waits()
        threading.Thread(target=self._listen, daemon=True).start()

    def __iter__(self):
        return self

    def __next__(self):
        """Waits for the next round and forms its process group."""
        while not self._is_done:
            place = self._places.get()
            try:
                self._form(place)
                return self
            except Exception:
                if not self._is_broken():
                    raise
                self._send_waits()
        raise StopIteration

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self._is_done = kind is None
        if kind is None or not issubclass(kind, Exception) or not self._is_broken():
            return False
        self._send_waits()
        return True

    def _form(self, place):
        if place is None:
            return dist.init_process_group(self._backend, timeout=self._timeout)
        with self._news:
            self._round, self._before, self._own = int(place["round"]), _connections(), None
            self._is_inside = True
            self._check()
        self.place = {name: value for name, value in place.items() if name.isupper()}
        os.environ.update(self.place)
        rank, size = int(place["RANK"]), int(place["WORLD_SIZE"])
        server = dist.TCPStore(place["MASTER_ADDR"], int(place["MASTER_PORT"]), is_master=False,
                               timeout=self._timeout)
        store = dist.PrefixStore(f"round{self._round}", server)
        options = {"rank": rank, "world_size": size, "timeout": self._timeout}
        world, can_reconfigure = dist.distributed_c10d._world, hasattr(dist, "_reconfigure")
        # The first round of this worker may have broken before its group was complete.
        if dist.is_initialized() and not (self._has_group and can_reconfigure):
            dist.destroy_process_group()
        if not dist.is_initialized():
            world.group_count = 0  # the group's name, which is the same in all workers
        if not can_reconfigure:
            dist.init_process_group(self._backend, store=store, **options)
        else:
            self._store.now = store
            if not dist.is_initialized():
                dist.init_process_group(self._backend, store=self._store, enable_reconfigure=True,
                                        **options)
            store.set(f"handle{rank}", dist._get_reconfigure_handle())
            handles = store.multi_get([f"handle{each}" for each in range(size)])
            dist._reconfigure(uuid=int(place["uuid"]), timeout=self._timeout,
                              handles=[each.decode() for each in handles]).wait()
            world.pg_group_ranks[dist.group.WORLD] = {each: each for each in range(size)}
            self._has_group = True
        with self._news:
            self._own = _connections() - self._before
            self._check()

    def _check(self):
        if self._broken_round >= self._round:
            raise ConnectionError(f"round {self._round} is broken")

    def _is_broken(self):
        with self._news:
            return self._line is not None and self._news.wait_for(
                lambda: self._broken_round >= self._round, self._wait_seconds)

    def _send_waits(self):
        with self._news:
            self._is_inside = False
        self._line.send(f"waits local_rank={os.environ['LOCAL_RANK']} round={self._round}".encode())

    def _listen(self):
        while packet := self._line.recv(4096):
            kind, *words = packet.decode().split()
            values = dict(word.split("=", 1) for word in words)
            if kind == "place":
                self._places.put(values)
            elif kind == "broken":
                with self._news:
                    self._broken_round = int(values["round"])
                    self._news.notify_all()
                    # More than once: it may just be making another connection.
                    while self._is_inside and self._round == self._broken_round:
                        self._hang_up()
                        self._news.wait(0.05)

    def _hang_up(self):
        """Ends the round's connections: what waits for a lost worker fails now."""
        now = _connections()
        for descriptor, inode in (now if self._own is None else now & self._own) - self._before:
            try:
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    is_listener = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                    if _inode(descriptor) == inode and not is_listener:
                        connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed meanwhile


def _inode(descriptor):
    return os.readlink(f"/proc/self/fd/{descriptor}")


def _connections():
    """The sockets of this process, with their inodes: a descriptor's number may be reused."""
    found = set()
    for each in os.listdir("/proc/self/fd"):
        try:
            inode = _inode(each)
        except OSError:
            continue  # closed meanwhile
        if inode.startswith("socket:"):
            found.add((int(each), inode))
    return found
