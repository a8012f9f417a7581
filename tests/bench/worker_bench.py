# SPDX-License-Identifier: BSD-3-Clause
"""The worker library beside PyTorch: worker_load and worker_load.py in one run, interleaved,
medians. One thread a rank, gloo, on the CPU.

    worker_bench.py [--build DIRECTORY] [--rounds N] [--quick]

Prints the tables of docs/performance.md and passes no judgement.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Run:
    """How each side is started, alone and with two ranks."""

    def __init__(self, options):
        build = options.build
        self.load = os.path.join(build, "tests/bench/worker_load")
        self.cpprun = [os.path.join(build, "launcher/cpprun"), "--standalone", "--nproc-per-node=2"]
        self.python = options.python
        self.script = os.path.join(HERE, "worker_load.py")
        self.torchrun = [self.python, "-m", "torch.distributed.run", "--standalone"]
        self.torchrun += ["--nproc-per-node=2"]

    def command(self, side, ranks):
        if side == "cpprun":
            return (self.cpprun if ranks > 1 else []) + [self.load]
        return (self.torchrun if ranks > 1 else [self.python]) + [self.script]

    def values(self, side, ranks, *words):
        """What it prints, by name; for `first`, the seconds until then from its start."""
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        begun = time.monotonic()
        done = subprocess.run(
            self.command(side, ranks) + list(words),
            capture_output=True,
            text=True,
            env=environment,
        )
        if done.returncode != 0:
            print(f"note: {side} {' '.join(words)}: {done.stderr.strip()[-300:]}")
            return {}
        pairs = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 2]
        values = {name: float(value) for name, value in pairs}
        if "first_step_at" in values:
            values["first_step"] = values.pop("first_step_at") / 1e3 - begun * 1e3
        return values


def collect(run, rounds, ranks, *words):
    """Medians of each side, by name."""
    found = {"cpprun": {}, "torch": {}}
    for _ in range(rounds):
        for side in found:
            for name, value in run.values(side, ranks, *words).items():
                found[side].setdefault(name, []).append(value)
    return {
        side: {name: statistics.median(values) for name, values in by_name.items()}
        for side, by_name in found.items()
    }


def row(what, theirs, ours, unit, more_is_better=False):
    if theirs is None or ours is None:
        return
    ratio = ours / theirs if more_is_better else theirs / ours
    print(f"| {what} | {theirs:,.2f} {unit} | {ours:,.2f} {unit} | {ratio:.2f} × |", flush=True)


def rows(found, names, unit, more_is_better=False):
    for name, what in names.items():
        theirs, ours = found["torch"].get(name), found["cpprun"].get(name)
        row(what, theirs, ours, unit, more_is_better)


def optimizers(found):
    """Ours beside PyTorch's fused ones, and beside the C++ frontend's, which are not fused."""
    for name, title in (("sgd", "SGD with momentum"), ("adamw", "AdamW")):
        for of, tensors in (("large", "100 tensors of 10,000"), ("small", "400 tensors of 256")):
            theirs, ours = found["torch"].get(f"{name}_{of}"), found["cpprun"].get(f"{name}_{of}")
            row(f"fused {title}, {tensors}", theirs, ours, "us")
            frontend = found["cpprun"].get(f"frontend_{name}_{of}")
            row("… beside the C++ frontend's torch::optim", frontend, ours, "us")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--python", default=os.environ.get("CPPRUN_PYTHON", sys.executable))
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    run = Run(options)

    print("| worker, one thread a rank | PyTorch 2.13 | C++ | better by |")
    print("| --- | --- | --- | --- |")
    for ranks, how in ((1, "alone"), (2, "2 ranks, with the launcher")):
        found = collect(run, rounds, ranks, "first")
        rows(found, {"first_step": f"start → first step, {how}"}, "ms")
    for ranks, how in ((1, "alone"), (2, "DDP, 2 ranks")):
        found = collect(run, rounds, ranks, "steps")
        rows(found, {"small_step": f"step, 3 layers of 64, {how}",
                     "large_step": f"step, 8 layers of 1,024, {how}"}, "us")
    with tempfile.TemporaryDirectory() as directory:
        found = collect(run, max(1, rounds // 2), 1, "local", directory)
    optimizers(found)
    rows(found, {"sampler": "sampler, an epoch of 1,000,000 for 8 ranks"}, "us")
    rows(found, {"save": "checkpoint of 268 MB, on the disk (PyTorch: torch.save)",
                 "load": "the same, read (PyTorch: torch.load)"}, "GB/s", True)
    for name in ("save", "load"):
        theirs, ours = found["torch"].get(f"{name}_safetensors"), found["cpprun"].get(name)
        row(f"{name}, both safetensors", theirs, ours, "GB/s", True)
    disk = found["cpprun"].get("disk", 0)
    found = collect(run, rounds, 2, "collectives")
    rows(found, {"all_reduce_4": "all_reduce of 4 B, 2 ranks",
                 "all_reduce_65536": "all_reduce of 64 KiB, 2 ranks",
                 "all_reduce_16777216": "all_reduce of 16 MiB, 2 ranks",
                 "barrier": "barrier, 2 ranks"}, "us")
    print(f"\nThe disk takes as many bytes, written plainly and synced, at {disk:.2f} GB/s.")


if __name__ == "__main__":
    main()
