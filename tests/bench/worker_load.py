# SPDX-License-Identifier: BSD-3-Clause
"""The operations of a worker, each timed alone: the Python half of worker_bench.py. worker_load.cpp
is the C++ half and does the same with the same sizes; both print lines of "name value".

    worker_load.py first|steps|local DIRECTORY|collectives
"""

import gc
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


def time_of(times, call):
    """The median time of one call, in microseconds."""
    call()  # the first one allocates
    took = []
    for _ in range(times):
        start = time.monotonic()
        call()
        took.append(time.monotonic() - start)
    return statistics.median(took) * 1e6


def tell(name, value):
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"{name} {value:.3f}", flush=True)


class Trainer:
    def __init__(self, layers, width, batch):
        parts = []
        for _ in range(layers):
            parts += [nn.Linear(width, width), nn.ReLU()]
        self.net = nn.Sequential(*parts)
        self.input = torch.randn(batch, width)
        several = dist.is_initialized() and dist.get_world_size() > 1
        self.model = DistributedDataParallel(self.net) if several else self.net
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=1e-6, momentum=0.9, fused=True)

    def step(self):
        self.sgd.zero_grad()
        self.model(self.input).square().mean().backward()
        self.sgd.step()


def bench_first():
    Trainer(2, 64, 32).step()
    tell("first_step_at", time.monotonic() * 1e6)


def bench_steps():
    tell("small_step", time_of(300, Trainer(3, 64, 32).step))
    tell("large_step", time_of(20, Trainer(8, 1024, 32).step))


def bench_local(directory):
    for of, count, size in (("large", 100, 10_000), ("small", 400, 256)):
        tensors = [torch.randn(size, requires_grad=True) for _ in range(count)]
        for tensor in tensors:
            tensor.grad = torch.randn(size)
        sgd = torch.optim.SGD(tensors, lr=1e-6, momentum=0.9, fused=True)
        tell(f"sgd_{of}", time_of(200, sgd.step))
        adamw = torch.optim.AdamW(tensors, lr=1e-6, fused=True)
        tell(f"adamw_{of}", time_of(200, adamw.step))

    sampler = DistributedSampler(range(1_000_000), num_replicas=8, rank=3)
    epochs = iter(range(1000))

    def deal_out():
        sampler.set_epoch(next(epochs))
        list(iter(sampler))

    tell("sampler", time_of(10, deal_out))
    bench_files(directory)


def bench_files(directory):
    state = {f"layer{i}": torch.randn(1024, 1024) for i in range(64)}
    size = 64 * 1024 * 1024 * 4

    def synced(save, path):
        save(state, path)
        # Ours is on the disk when it returns.
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)

    torch_path, safe_path = f"{directory}/theirs.pth", f"{directory}/theirs.safetensors"
    tell("save", size / time_of(3, lambda: synced(torch.save, torch_path)) / 1e3)
    tell("load", size / time_of(3, lambda: torch.load(torch_path)) / 1e3)
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        return
    tell("save_safetensors", size / time_of(3, lambda: synced(save_file, safe_path)) / 1e3)
    tell("load_safetensors", size / time_of(3, lambda: load_file(safe_path)) / 1e3)


def bench_collectives():
    for size in (4, 65_536, 16_777_216):
        tensor = torch.ones(size // 4)
        times = 15 if size > 1_000_000 else 300
        reduce = lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)  # noqa: E731
        tell(f"all_reduce_{size}", time_of(times, reduce))
    tell("barrier", time_of(300, dist.barrier))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    mode = sys.argv[1]
    if mode == "local":
        bench_local(sys.argv[2])
        return
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    {"first": bench_first, "steps": bench_steps, "collectives": bench_collectives}[mode]()
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
