#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""An ordinary PyTorch DDP script: nothing in it knows cpprun.

    cpprun --standalone --nproc-per-node=2 train.py
"""

import argparse
import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()

    dist.init_process_group("gloo", init_method="env://")
    train(arguments)
    # PyTorch 2.13 aborts now and then when a thread of gloo's outlives the interpreter, under any
    # launcher. With nothing left that holds the group, its threads end with it, here.
    gc.collect()
    dist.destroy_process_group()


def train(arguments):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(
        f"rank {rank} of {world_size}, local rank {os.environ['LOCAL_RANK']} "
        f"on node {os.environ['GROUP_RANK']}",
        flush=True,
    )

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)

    # Every rank draws other examples of the same function.
    generator = torch.Generator().manual_seed(rank)
    for step in range(1, arguments.steps + 1):
        inputs = torch.randn(arguments.batch_size, 10, generator=generator)
        targets = inputs.sum(dim=1, keepdim=True).sin()
        loss = nn.functional.mse_loss(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 1:
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.AVG)
            if rank == 0:
                print(f"step {step:3d}  loss {mean.item():.4f}", flush=True)

    # After training all ranks hold the same model: the sums are equal to the last digit.
    total = sum(parameter.detach().double().sum().item() for parameter in model.parameters())
    print(f"rank {rank}: done, the parameters sum up to {total!r}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
