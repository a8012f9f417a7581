# SPDX-License-Identifier: BSD-3-Clause
"""`./dev gpu`: what can only be tried on a machine with an NVIDIA GPU, with the finished programs.

    gpu_check.py BUILD-FOLDER [CHECK…]

Prints a table, one row for each check, and exits with 1 if one failed. The Python that runs it has
to have torch: PyTorch is the peer that is measured in the same run.
"""

import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
CPPRUN = f"{BUILD}/launcher/cpprun"
EXAMPLES = f"{BUILD}/worker/examples"
TESTS = f"{BUILD}/tests/worker"
VIT = ["--batch=64", "--steps=20", "--warmup=5"]
SCRIPT = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
for _ in range(3):
    model(torch.randn(8, 64, device="cuda")).square().mean().backward()
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
print("total", int(total.item()), "of", os.environ["WORLD_SIZE"])
dist.destroy_process_group()
"""
# The model of worker/examples/speed.cpp, the same kernels.
PEER = """
import json, sys, time, torch
from torch import nn
from torch.nn import functional as F
class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))
class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 768, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 768))
        self.position = nn.Parameter(0.02 * torch.randn(1, 197, 768))
        self.blocks = nn.Sequential(*[Block(768, 12) for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)
    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])
torch.manual_seed(0)
kind = torch.bfloat16 if sys.argv[1] == "bf16" else torch.float32
model = Vit().to("cuda", kind)
images = torch.randn(64, 3, 224, 224).to("cuda", kind)
labels = torch.randint(1000, (64,)).cuda()
def step():
    for each in model.parameters():
        each.grad = None
    begun = time.monotonic()
    loss = F.cross_entropy(model(images).float(), labels)
    torch.cuda.synchronize()
    forward = time.monotonic() - begun
    loss.backward()
    torch.cuda.synchronize()
    return forward, time.monotonic() - begun - forward
for _ in range(5):
    step()
forward, backward = (sum(column) / 20 for column in zip(*[step() for _ in range(20)]))
print(json.dumps({"forward_seconds": forward, "backward_seconds": backward}))
"""


class Failed(Exception):
    """A check that did not come out as it should."""


def run(command, timeout=120, expect=0):
    """The output of a command, both streams. A status other than `expect` fails the check."""
    # A session of its own, so that nothing below the command survives it and keeps the pipe open.
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        output, _ = started.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        output, _ = started.communicate(timeout=10)
        text = f"still running after {timeout} s: {' '.join(command[:3])}\n{output[-3000:]}"
        raise Failed(text) from None
    if expect is not None and started.returncode != expect:
        raise Failed(f"exit {started.returncode}: {' '.join(command[:3])}\n{output[-3000:]}")
    return output


def need(condition, text):
    if not condition:
        raise Failed(text)


def doctest(program, *arguments):
    output = run([f"{TESTS}/{program}", *arguments])
    cases = re.search(r"test cases: *(\d+) \| *(\d+) passed \| *(\d+) failed", output)
    need(cases and cases[3] == "0", output[-3000:])
    return f"{cases[2]} of {cases[1]} cases"


def used_mebibytes():
    return int(run(["nvidia-smi", "--id=0", "--query-gpu=memory.used",
                    "--format=csv,noheader,nounits"]))


def check_machine():
    facts = run(["nvidia-smi", "--query-gpu=name,memory.total,driver_version",
                 "--format=csv,noheader"]).strip()
    version = run([sys.executable, "-c", "import torch; print(torch.__version__)"]).strip()
    return f"{facts}; torch {version}"


def check_gpu_cases():
    return doctest("worker_gpu_test", "-tce=two workers:*")


def check_two_workers():
    """Two processes that share the GPU; one group in each process, so one job for each case."""
    for case in ("they train", "SyncBatchNorm"):
        output = run([CPPRUN, "--standalone", "--nproc-per-node=2", f"{TESTS}/worker_gpu_test",
                      f"-tc=two workers: {case}*"])
        need(output.count("1 passed | 0 failed") == 2, output[-3000:])
    return "2 cases"


def check_group_cases():
    return doctest("worker_group_test")


def check_torch_cases():
    return doctest("worker_torch_test")


def check_script():
    """An unmodified PyTorch script over nccl, one worker for each GPU."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/train.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        output = run([CPPRUN, "--standalone", "--nproc-per-node=gpu", path])
    need("total 1 of 1" in output, output)
    return "total 1 of 1"


def check_resnet():
    """resnet_cifar on the GPU, both types, over nccl."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = f"{EXAMPLES}/resnet_cifar"
        run([program, f"--data={folder}/data", "--make-synthetic=2000"])
        for kind in ("fp32", "bf16"):
            output = run([CPPRUN, "--standalone", program, f"--data={folder}/data",
                          "--num-epochs=3", f"--model-dir={folder}/{kind}", f"--dtype={kind}",
                          "--device=cuda", "--width=16", "--learning-rate=0.05"])
            losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", output)]
            need("on cuda" in output and losses[-1] < 0.5 * losses[0], output[-2000:])
            rows.append(f"{kind} loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    return ", ".join(rows)


def check_shared():
    """Two workers on one GPU over gloo."""
    output = run([CPPRUN, "--standalone", "--nproc-per-node=2", f"{EXAMPLES}/speed",
                  "--device=cuda", "--local-rank=0", "--backend=gloo", "--batch=8", "--steps=3",
                  "--json"])
    need('"world_size": 2' in output, output)
    return re.search(r'"images_per_second_all": ([0-9.]+)', output)[1] + " images/s"


def check_ordinal():
    """A device that does not exist."""
    output = run([CPPRUN, "--standalone", f"{EXAMPLES}/speed", "--device=cuda", "--local-rank=7"],
                 expect=1)
    need("local rank 7 has no GPU of its own" in output, output)
    return "refused in words"


def check_crowd():
    """More workers than GPUs that ask for nccl."""
    output = run([CPPRUN, "--standalone", "--nproc-per-node=2", f"{EXAMPLES}/speed",
                  "--device=cuda", "--backend=nccl"], expect=1)
    need("has no GPU of its own" in output, output)
    return "refused in words"


def check_drain():
    """The GPU's memory is free again after cpprun was killed."""
    before = used_mebibytes()
    job = subprocess.Popen([CPPRUN, "--standalone", f"{EXAMPLES}/speed", "--device=cuda",
                            "--batch=64", "--steps=1000000"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while (held := used_mebibytes()) < before + 1000:
            need(time.monotonic() < deadline, f"after 60 s the job holds only {held - before} MiB")
            time.sleep(0.1)
    finally:
        job.kill()
        begun = time.monotonic()
        job.wait()
    while used_mebibytes() > before + 100:
        need(time.monotonic() - begun < 30, f"{used_mebibytes()} MiB are still held")
        time.sleep(0.05)
    return f"{held - before} MiB free again after {time.monotonic() - begun:.1f} s"


def halves(output):
    """Forward and backward in milliseconds."""
    found = json.loads(output[output.index("{"):])
    return found["forward_seconds"] * 1e3, found["backward_seconds"] * 1e3


def check_speed():
    """ViT-Base/16, batch 64, forward and backward, beside PyTorch, interleaved."""
    rows = []
    for kind in ("fp32", "bf16"):
        ours = [CPPRUN, "--standalone", f"{EXAMPLES}/speed", "--device=cuda", f"--dtype={kind}",
                "--json", *VIT]
        theirs = [sys.executable, "-c", PEER, kind]
        times = [[halves(run(side)) for side in (theirs, ours)] for _ in range(3)]
        for i, half in enumerate(("forward", "backward")):
            peer, mine = (statistics.median(each[side][i] for each in times) for side in (0, 1))
            rows.append(f"{kind} {half} {mine:.1f} ms (PyTorch {peer:.1f} ms, {peer / mine:.2f} x)")
    return "; ".join(rows)


def check_sanitizer():
    """compute-sanitizer over a step of DistributedDataParallel."""
    tool = "compute-sanitizer"
    # NCCL asks the driver for much that it may not have: only errors of memory count.
    output = run([tool, "--tool=memcheck", "--report-api-errors=no", f"{TESTS}/worker_gpu_test",
                  "-tc=a step of DistributedDataParallel*"], expect=None)
    need("ERROR SUMMARY: 0 errors" in output, output[-3000:])
    return "0 errors"


CHECKS = {name.removeprefix("check_"): call for name, call in list(globals().items())
          if name.startswith("check_")}


def main():
    wanted = sys.argv[2:] or list(CHECKS)
    if unknown := [name for name in wanted if name not in CHECKS]:
        sys.exit(f"gpu_check: unknown check {unknown[0]}; there are {', '.join(CHECKS)}")
    failed = []
    print("| check | result | seconds |\n| --- | --- | --- |", flush=True)
    for name in wanted:
        begun = time.monotonic()
        try:
            result = CHECKS[name]()
        except (Failed, OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
            failed.append((name, error))
            result = "FAILED"
        print(f"| {name} | {result} | {time.monotonic() - begun:.1f} |", flush=True)
    for name, error in failed:
        print(f"\n--- {name}: {error}")
    print(f"\n{len(wanted) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
