#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Training that survives the loss of a worker in place: the others keep their processes.

    cpprun --standalone --nproc-per-node=4 --max-restarts=3 --on-failure=reconfigure reconfigure.py

After a loss, all ranks continue from the last step that all surviving ranks have completed. The
losses are those of a run without any failure.
"""

import argparse
import gc
import os
import time

import torch
import torch.distributed as dist
from cpprun.reconfigure import Rounds
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCH_SIZE = 96  # of all ranks together, so that the number of ranks does not change the training


class Training:
    """The state of the training, which outlives the rounds."""

    def __init__(self, steps, step_seconds):
        self.steps, self.step_seconds = steps, step_seconds
        torch.set_default_dtype(torch.float64)  # losses can be compared with those of another run
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.tensors = list(self.model.parameters())
        for each in self.model.parameters():
            momentum = self.optimizer.state[each]["momentum_buffer"] = torch.zeros_like(each)
            self.tensors.append(momentum)
        self.step = -1  # completed steps; -1: a new worker, which knows nothing
        self.before = []  # the tensors before the last step

    @torch.no_grad()
    def synchronize(self):
        """Some ranks may have completed one step more than others. A new worker has none."""
        steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(steps, torch.tensor([self.step]))
        steps = [each.item() for each in steps]
        known = [each for each in steps if each >= 0]
        step = min(known, default=0)
        if self.step > step:
            for each, value in zip(self.tensors, self.before):
                each.copy_(value)
            self.step = step
        for each in self.tensors:
            dist.broadcast(each, src=steps.index(step) if known else 0)
        self.step = step  # a new worker only now: the round may break in between

    def train(self):
        self.synchronize()
        rank, size = dist.get_rank(), dist.get_world_size()
        ddp = DistributedDataParallel(self.model)
        while self.step < self.steps:
            generator = torch.Generator().manual_seed(self.step)
            inputs = torch.randn(BATCH_SIZE, 10, generator=generator)[rank::size]
            targets = inputs.sum(dim=1, keepdim=True).sin()
            error = nn.functional.mse_loss(ddp(inputs), targets, reduction="sum")
            self.optimizer.zero_grad()
            (error * size / BATCH_SIZE).backward()  # DDP averages over the ranks
            loss = error.detach() / BATCH_SIZE
            dist.all_reduce(loss)
            self.before = [each.detach().clone() for each in self.tensors]
            self.optimizer.step()
            self.step += 1
            if rank == 0:
                print(f"step {self.step} loss {loss.item()!r}", flush=True)
            time.sleep(self.step_seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--step-seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    training = Training(arguments.steps, arguments.step_seconds)
    for place in Rounds("gloo"):
        print(f"rank {dist.get_rank()} of {dist.get_world_size()} has process {os.getpid()}, "
              f"completed steps: {max(training.step, 0)}", flush=True)
        with place:
            training.train()
    gc.collect()  # what still uses the process group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
