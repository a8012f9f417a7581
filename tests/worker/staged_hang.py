# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary training script that hangs in a chosen way: staged_hang.py KIND.

The odd rank is the last but one. All other ranks wait for it in a collective, unless the kind says
otherwise. HANG_BEGAN names a file that the odd rank creates just before, and HANG_GROUP_TIMEOUT is
the timeout of the process group in seconds.
"""

import concurrent.futures
import ctypes
import datetime
import fcntl
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
world_size = int(os.environ["WORLD_SIZE"])
odd = world_size - 2
forever = 1_000_000


def stuck_function():
    threading.Event().wait()


def busy_loop():
    while True:
        pass


def polling_loop():
    while not os.path.exists("/nonexistent/flag"):
        time.sleep(0.05)


def taken_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def gil_held_in_c():
    ctypes.PyDLL(None).sleep(forever)


def stopped_process():
    os.kill(os.getpid(), signal.SIGSTOP)


def empty_pipe():
    os.read(os.pipe()[0], 1)


def silent_peer():
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    client.recv(1)


def empty_queue():
    queue.Queue().get()


def long_sleep():
    time.sleep(forever)


def child_process():
    subprocess.run(["sleep", str(forever)])


def idle():
    time.sleep(forever)


def multiprocessing_child():
    child = multiprocessing.get_context("fork").Process(target=idle)
    child.start()
    child.join()


class SlowDataset(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        time.sleep(forever)


def data_loader():
    for _ in torch.utils.data.DataLoader(SlowDataset(), num_workers=1):
        pass


def file_lock():
    path = os.path.join(tempfile.gettempdir(), f"cpprun_staged_{os.getpid()}")
    first, second = open(path, "w"), open(path, "w")
    os.unlink(path)
    fcntl.flock(first, fcntl.LOCK_EX)
    fcntl.flock(second, fcntl.LOCK_EX)


def checkpoint_to_a_pipe_without_reader():
    path = os.path.join(tempfile.gettempdir(), f"cpprun_staged_{os.getpid()}")
    os.mkfifo(path)
    try:
        open(path, "wb")
    finally:
        os.unlink(path)


def failed_thread():
    batches = queue.Queue()

    def produce():
        raise RuntimeError("disk quota exceeded")

    threading.Thread(target=produce, daemon=True).start()
    batches.get()


def missing_key():
    dist.distributed_c10d._get_default_store().get("never")


def pending_operation():
    dist.all_reduce(torch.ones(4), async_op=True)
    stuck_function()


def uninterruptible_sleep():
    # posix_spawn waits in the kernel until the child has opened its input.
    path = os.path.join(tempfile.gettempdir(), f"cpprun_staged_{os.getpid()}")
    os.mkfifo(path)
    os.posix_spawn("/bin/true", ["true"], os.environ,
                   file_actions=[(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0)])


def frozen_process():
    # HANG_FREEZER is a control group of the freezer. hangs_test.py thaws it.
    group = os.environ["HANG_FREEZER"]
    with open(os.path.join(group, "cgroup.procs"), "w") as procs:
        procs.write(str(os.getpid()))
    with open(os.path.join(group, "freezer.state"), "w") as state:
        state.write("FROZEN")


def child_that_fills_its_pipe():
    subprocess.Popen(["yes"], stdout=subprocess.PIPE).wait()


def child_that_uses_the_store():
    # The thread holds the lock of the store's client when the child is forked.
    store = dist.distributed_c10d._get_default_store()
    threading.Thread(target=store.get, args=("never",), daemon=True).start()
    while store.num_keys() < 0:
        pass
    child = multiprocessing.get_context("fork").Process(target=store.set, args=("key", "value"))
    child.start()
    child.join()


def two_locks_in_opposite_order():
    first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

    def take(one, other):
        with one:
            both.wait()
            with other:
                pass

    threading.Thread(target=take, args=(second, first), daemon=True).start()
    take(first, second)


def stuck_executor():
    with concurrent.futures.ThreadPoolExecutor() as executor:
        executor.submit(stuck_function).result()


def thread_that_outlives_main():
    threading.Thread(target=stuck_function).start()
    sys.exit()


def step():
    dist.all_reduce(torch.ones(4))


def wait_for_the_odd_rank(hang):
    if rank == odd:
        hang()
    step()
    step()


def different_collectives():
    if rank == odd:
        dist.broadcast(torch.ones(4), 0)
    else:
        dist.all_reduce(torch.ones(4))
    dist.barrier()


def skipped_collective():
    if rank != odd:
        dist.all_reduce(torch.ones(4))
    dist.barrier()


def opposite_order():
    first = dist.new_group(list(range(world_size)))
    second = dist.new_group(list(range(world_size)))
    for group in (second, first) if rank == odd else (first, second):
        dist.all_reduce(torch.ones(4), group=group)


def different_shapes():
    # The smaller all_reduce completes, and the others wait for the rest of its data.
    dist.all_reduce(torch.ones(2 if rank == odd else 4))
    dist.barrier()


def group_that_one_rank_does_not_create():
    if rank != odd:
        dist.new_group(list(range(world_size)))
    step()


def subgroup():
    pair = dist.new_group([0, odd])
    if rank == odd:
        stuck_function()
    if rank == 0:
        dist.all_reduce(torch.ones(4), group=pair)
    step()


def receive_without_send():
    if rank == 0:
        dist.recv(torch.ones(4), src=odd)
    if rank == odd:
        stuck_function()
    step()


def checkpoint_of_rank_0():
    if rank == 0:
        checkpoint_to_a_pipe_without_reader()
    dist.barrier()


def before_the_group():
    pass


in_one_rank = [
    stuck_function, busy_loop, polling_loop, taken_lock, gil_held_in_c, stopped_process,
    empty_pipe, silent_peer, empty_queue, long_sleep, child_process, multiprocessing_child,
    data_loader, file_lock, failed_thread, missing_key, pending_operation, uninterruptible_sleep,
    frozen_process, child_that_fills_its_pipe, child_that_uses_the_store,
    two_locks_in_opposite_order, stuck_executor, thread_that_outlives_main]
of_all = [
    different_collectives, skipped_collective, different_shapes, opposite_order,
    group_that_one_rank_does_not_create, subgroup, receive_without_send, checkpoint_of_rank_0]


def begin():
    if rank == odd and "HANG_BEGAN" in os.environ:
        open(os.environ["HANG_BEGAN"], "w").close()


if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "before_the_group" and rank == odd:
        begin()
        stuck_function()
    timeout = datetime.timedelta(seconds=int(os.environ.get("HANG_GROUP_TIMEOUT", "1800")))
    dist.init_process_group("gloo", timeout=timeout)
    for _ in range(3):
        step()
    begin()
    for each in in_one_rank:
        if each.__name__ == kind:
            wait_for_the_odd_rank(each)
    for each in of_all:
        if each.__name__ == kind:
            each()
