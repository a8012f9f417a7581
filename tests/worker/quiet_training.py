# SPDX-License-Identifier: BSD-3-Clause
"""A training that prints nothing for a long time, and is not hung: quiet_training.py KIND SECONDS.

Each phase is several times as long as the --hang-timeout of hangs_test.py. It prints one line at
its end.
"""

import io
import os
import queue
import sys
import tempfile
import threading
import time

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
phase_seconds = 40


def until_end_of_phase():
    end = time.monotonic() + phase_seconds
    while time.monotonic() < end:
        yield


model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])


def train_step(rows=256):
    loss = model(torch.randn(rows, 512)).square().mean()
    loss.backward()
    return loss


def long_step():
    """Many small batches are accumulated before the ranks meet."""
    for _ in until_end_of_phase():
        train_step()


def long_operation():
    """One call of PyTorch takes the whole phase, in one line."""
    if rank == 0:
        matrix = torch.randn(1500, 1500)
        for _ in until_end_of_phase(): torch.linalg.svd(matrix)  # noqa: E701


def compilation():
    """Inductor writes C++ and calls a compiler, which is a child process."""
    for phase in until_end_of_phase():
        torch._dynamo.reset()
        with torch._inductor.utils.fresh_inductor_cache():
            width = int.from_bytes(os.urandom(1), "big") + 16
            compiled = torch.compile(lambda x: (x.sin() * width + x.cos()).tanh().sum() / width)
            compiled(torch.randn(width, 64))


class SlowFile(io.RawIOBase):
    """A file on a disk that writes 300 kB a second."""

    def __init__(self):
        self.file = tempfile.TemporaryFile()

    def writable(self):
        return True

    def write(self, data):
        data = bytes(data)
        for at in range(0, len(data), 30_000):
            time.sleep(len(data[at:at + 30_000]) / 300_000)
            self.file.write(data[at:at + 30_000])
            self.file.flush()
        return len(data)


def checkpoint_of_rank_0():
    if rank == 0:
        torch.save(torch.randn(phase_seconds * 300_000 // 4), SlowFile())


def validation_on_rank_0():
    if rank == 0:
        with torch.no_grad():
            for _ in until_end_of_phase():
                model(torch.randn(256, 512))


def words_of(number):
    return [str(number % 1000), str(number // 1000)]


def count_word(counts, word):
    if word not in counts:
        counts[word] = 0
    counts[word] += 1


def count_words(numbers):
    counts = {}
    for number in numbers:
        for word in words_of(number):
            count_word(counts, word)
    return len(counts)


def preparation_in_python():
    """Rank 0 counts words, in Python alone."""
    if rank == 0:
        for _ in until_end_of_phase():
            count_words(range(20_000))


class SlowRows(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        total = 0
        for _ in until_end_of_phase():
            total += count_words(range(10_000))
        return total


def data_loading_processes():
    for _ in torch.utils.data.DataLoader(SlowRows(), num_workers=2):
        pass


def data_loading_thread():
    """The main thread waits for a thread that computes in Python."""
    rows = queue.Queue()
    threading.Thread(target=lambda: rows.put(SlowRows()[0]), daemon=True).start()
    rows.get()


def waiting_for_a_slow_download():
    """A file that another program writes grows."""
    if rank == 0:
        reader, writer = os.pipe()
        if os.fork() == 0:
            for _ in until_end_of_phase():
                os.write(writer, bytes(30_000))
                time.sleep(1)
            os._exit(0)
        os.close(writer)
        while os.read(reader, 4096):
            pass
        os.wait()


phases = [long_step, long_operation, compilation, checkpoint_of_rank_0, validation_on_rank_0,
          preparation_in_python, data_loading_processes, data_loading_thread,
          waiting_for_a_slow_download]

if __name__ == "__main__":
    torch.set_num_threads(1)
    kind, seconds = sys.argv[1], float(sys.argv[2])
    end = time.monotonic() + seconds
    dist.init_process_group("gloo")
    phase = next(each for each in phases if each.__name__ == kind)
    count = 0
    goes_on = torch.ones(1)
    while goes_on:
        phase()
        count += 1
        goes_on.fill_(time.monotonic() < end)
        dist.broadcast(goes_on, 0)
    print(f"{count} phases")
    dist.destroy_process_group()
