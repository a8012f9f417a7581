#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains the same models through C++'s and Python's DistributedDataParallel, on the same numbers,
under the same options, and compares every loss and parameter: two C++ ranks, two Python ranks, and
one of each in one process group. Usage: ddp_parity.py path/to/ddp_worker

Skipped (77) where no Python with torch is found: CPPRUN_PYTHON, else .venv/bin/python."""

import os
import subprocess
import sys
import tempfile

STEPS, BATCH, TOLERANCE = 20, 8, 1e-5
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def make_net(two_heads=False, frozen=None, has_table=False, recomputes=False):
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(),
                nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(),
            )
            self.head_a = nn.Linear(32, 4)
            if two_heads:
                self.head_b = nn.Linear(32, 4)
            if has_table:
                self.table = nn.Embedding(10, 16, sparse=True)
            for key, parameter in self.named_parameters():
                parameter.requires_grad_(not (frozen and key.startswith(frozen)))

        def forward(self, x, step):
            if has_table:
                x = x + self.table((torch.arange(BATCH) + step) % 10)
            features = (checkpoint(self.body, x.requires_grad_(), use_reentrant=True) if recomputes
                        else self.body(x))
            head = self.head_b if two_heads and step % 3 == 0 else self.head_a
            return head(features)

    torch.manual_seed(1234)
    return Net()


def batch_of(rank, step):
    import torch

    numbers = torch.arange(1, BATCH * 16 + 1, dtype=torch.float)
    return (torch.sin(numbers * (0.37 * (rank + 1)) + 0.11 * step).view(BATCH, 16),
            (torch.arange(BATCH) * 7 + rank + step) % 4)


def write_tensors(name, tensors, out):
    for key, tensor in tensors:
        for i, value in enumerate(tensor.detach().flatten().tolist()):
            out.write(f"{name} {key} {i} {value:.9g}\n")


def train(name, out, two_heads=False, accumulates=False, hook=None, frozen=None, has_table=False,
          two_passes=False, **options):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    net = make_net(two_heads, frozen, has_table)
    rank = dist.get_rank()
    with torch.no_grad():
        # Rank 0's values are to arrive in the tensors they came from.
        for parameter in net.parameters():
            parameter.add_(rank)
    ddp = DistributedDataParallel(net, **options)
    if hook:
        ddp.register_comm_hook(None, hook)
    # The fused one fails on a parameter whose first gradient comes late, and on a sparse one.
    sgd = torch.optim.SGD([each for each in ddp.parameters() if each.requires_grad], lr=0.05,
                          momentum=0 if has_table else 0.9, fused=not (two_heads or has_table))
    for step in range(STEPS):
        x, y = batch_of(rank, step)

        def run():
            loss = nn.functional.cross_entropy(ddp(x, step), y)
            if two_passes:
                loss = loss + nn.functional.cross_entropy(ddp(x.flip(0), step), y)
            loss.backward()
            out.write(f"{name} loss {step} {loss.item():.9g}\n")

        if accumulates and step % 2 == 0:
            with ddp.no_sync():
                run()
            continue
        run()
        sgd.step()
        sgd.zero_grad(set_to_none=False)
    write_tensors(name, net.named_parameters(), out)


def train_with(piece, out):
    """The same as the function of that name in ddp_worker.cpp."""
    import contextlib

    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.join import Join
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import swa_utils

    net = make_net(recomputes=piece == "recomputed")
    rank = dist.get_rank()
    ddp = DistributedDataParallel(net)
    options = {"lr": 0.05, "momentum": 0.9, "fused": True}
    sgd = (ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, **options) if piece == "zero"
           else torch.optim.SGD(ddp.parameters(), **options))
    ema = swa_utils.get_ema_multi_avg_fn(0.9) if piece == "ema" else None
    average = swa_utils.AveragedModel(net, multi_avg_fn=ema, use_buffers=piece == "ema")
    scaler = torch.amp.GradScaler("cpu", growth_interval=4, enabled=piece == "scaler")
    joins = piece.startswith("join")
    steps = (1 if piece == "join" else 12) if joins and rank == 1 else STEPS
    with (Join([ddp], divide_by_initial_world_size=piece == "join") if joins
          else contextlib.nullcontext()):
        for step in range(steps):
            x, y = batch_of(rank, step)
            loss = nn.functional.cross_entropy(ddp(x, step), y)
            out.write(f"{piece} loss {step} {loss.item():.9g}\n")
            if scaler.is_enabled() and step == 5 and rank == 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(sgd)
            scaler.update()
            out.write(f"{piece} scale {step} {scaler.get_scale():.9g}\n")
            average.update_parameters(net)
            sgd.zero_grad(set_to_none=False)
    write_tensors(piece, net.named_parameters(), out)
    write_tensors(piece, net.named_buffers(), out)
    if piece in ("ema", "swa"):
        write_tensors(piece, average.state_dict().items(), out)


def divide_last(_, bucket):
    import torch.distributed as dist

    reduced = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return reduced.then(lambda future: future.value()[0].div_(dist.get_world_size()))


def talk(out):
    """The same calls as the C++ half makes."""
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()

    def say(what, value):
        out.write(f"collectives {what} 0 {value:.9g}\n")

    def number(value):
        return torch.full((3,), float(value))

    seen = [torch.zeros(1, dtype=torch.double) for _ in range(size)]
    dist.all_gather(seen, torch.full((1,), rank + 0.5, dtype=torch.double))
    say("gathered", seen[1].item())
    total = number(rank + 1)
    dist.all_reduce(total)
    dist.broadcast(total, 1)
    say("reduced", total[0].item())
    rows = torch.arange(size * 2, dtype=torch.float) + rank
    part = torch.empty(2)
    dist.reduce_scatter_tensor(part, rows)
    say("scattered", part[0].item())
    exchanged = torch.empty(size * 2)
    dist.all_to_all_single(exchanged, rows)
    say("exchanged", exchanged[size].item())
    incoming = number(0)
    sending = dist.isend(number(rank), (rank + 1) % size, tag=7)
    dist.recv(incoming, (rank + size - 1) % size, tag=7)
    sending.wait()
    say("received", incoming[0].item())
    ends = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        both = number(rank + 3)
        dist.all_reduce(both, group=ends)
        say("ends", both[0].item())
    dist.barrier()


def python_rank(path, only=None):
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

    dist.init_process_group("gloo")
    modes = {
        "default": {},
        "small_buckets": {"bucket_cap_mb": 0.004},
        "find_unused": {"two_heads": True, "find_unused_parameters": True},
        "bucket_view": {"bucket_cap_mb": 0.004, "gradient_as_bucket_view": True},
        "own_buffers": {"broadcast_buffers": False},
        "static_graph": {"static_graph": True},
        "no_sync": {"accumulates": True},
        "frozen_first": {"frozen": "body.0"},
        "frozen_middle": {"frozen": "body.3"},
        "frozen_last": {"frozen": "head_a"},
        "sparse": {"has_table": True},
        "two_passes": {"two_passes": True},
        "fp16_hook": {"hook": hooks.fp16_compress_hook},
        # By its own name Python takes this one only where there is NCCL; over gloo it works too.
        "bf16_hook": {"hook": lambda state, bucket: hooks.bf16_compress_hook(state, bucket)},
        "user_hook": {"hook": divide_last},
    }
    with open(path, "w") as out:
        for name, options in modes.items():
            if only in (None, name):
                train(name, out, **options)
        for piece in ("join", "join_divided", "recomputed", "scaler", "ema", "swa"):
            if only in (None, piece):
                train_with(piece, out)
        if only == "zero":
            train_with(only, out)
        talk(out)
    # Not by way of the interpreter's end: there a gloo thread of PyTorch that lets go of a tensor
    # known to Python aborts the process now and then.
    sys.stdout.flush()
    os._exit(0)


def find_python():
    for candidate in (os.environ.get("CPPRUN_PYTHON"), os.path.join(ROOT, ".venv/bin/python")):
        if not candidate or not os.path.exists(candidate):
            continue
        probe = subprocess.run([candidate, "-c", "import torch.distributed"], check=False)
        if probe.returncode == 0:
            return candidate
    return None


def read(path):
    with open(path) as file:
        return {tuple(line.split()[:3]): float(line.split()[3]) for line in file}


def run_job(name, commands, directory, *only):
    from ranks import run_ranks

    paths = [os.path.join(directory, f"{name}.{rank}") for rank in range(len(commands))]
    ended = run_ranks([command + [path, *only] for command, path in zip(commands, paths)])
    for rank, each in enumerate(ended):
        if each.code != 0:
            sys.exit(f"ddp_parity: {name}: rank {rank} ended with {each.code}:\n{each.output}")
    return [read(path) for path in paths]


def compare(name, expected, found):
    if expected.keys() != found.keys():
        sys.exit(f"ddp_parity: {name}: other values were written: "
                 f"{sorted(expected.keys() ^ found.keys())[:5]}")
    worst = max(expected, key=lambda key: abs(expected[key] - found[key]))
    difference = abs(expected[worst] - found[worst])
    verdict = "identical" if difference == 0 else f"differ by {difference:.2g} at {' '.join(worst)}"
    print(f"{name}: {len(expected)} values, {verdict}")
    # Two builds of one library may order their sums differently; the ranks of a job may not drift.
    if not difference <= TOLERANCE:
        sys.exit(f"ddp_parity: {name}: more than {TOLERANCE} apart")


def main():
    if sys.argv[1] == "--rank":
        python_rank(*sys.argv[2:])
        return
    python = find_python()
    if not python:
        print("skipped: no Python with torch (set CPPRUN_PYTHON, or make .venv with it)")
        sys.exit(77)
    cpp_rank, py_rank = [sys.argv[1]], [python, os.path.abspath(__file__), "--rank"]
    with tempfile.TemporaryDirectory() as directory:
        pure = run_job("python", [py_rank, py_rank], directory)
        jobs = {"C++ and C++": [cpp_rank, cpp_rank],
                "Python and C++": [py_rank, cpp_rank],
                "C++ and Python": [cpp_rank, py_rank]}
        for name, commands in jobs.items():
            for rank, found in enumerate(run_job(name.replace(" ", ""), commands, directory)):
                compare(f"{name}, rank {rank}", pure[rank], found)
        # Not in groups of both languages: they exchange the parameters in different ways.
        for rank, (expected, found) in enumerate(zip(
                run_job("pyzero", [py_rank, py_rank], directory, "zero"),
                run_job("cppzero", [cpp_rank, cpp_rank], directory, "zero"))):
            compare(f"ZeroRedundancyOptimizer, rank {rank}", expected, found)


if __name__ == "__main__":
    main()
