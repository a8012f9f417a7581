# SPDX-License-Identifier: BSD-3-Clause
"""`./dev gpu`: what can only be tried on a machine with an NVIDIA GPU, with the finished programs.

    gpu_check.py BUILD-DIRECTORY [CHECK…]

Prints a table, one row for each check, and exits with 1 if one failed. The Python that runs it has
to have torch: PyTorch is the peer that is measured in the same run.
"""

import concurrent.futures
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

BUILD = os.path.abspath(sys.argv[1])
CPPRUN = f"{BUILD}/launcher/cpprun"
EXAMPLES = f"{BUILD}/worker/examples"
TESTS = f"{BUILD}/tests/worker"
VIT = ["--batch=64", "--steps=20", "--warmup=5"]
SCRIPT = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
for _ in range(3):
    model(torch.randn(8, 64, device="cuda")).square().mean().backward()
total = torch.ones(1, device="cuda")
dist.all_reduce(total)
gradient = model.module.weight.grad.clone()
dist.broadcast(gradient, 0)
assert torch.equal(gradient, model.module.weight.grad), "the gradients differ"
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


# NCCL takes two processes with different NCCL_HOSTID for two hosts. So it accepts that both use one
# GPU, and connects them by sockets.
TWO_HOSTS = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket",
             "NCCL_IB_DISABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
             "NCCL_MNNVL_ENABLE": "0", "NCCL_RAS_ENABLE": "0"}
DETAILS = []  # texts to print below the table


class Failed(Exception):
    """A check that did not come out as it should."""


def run(command, timeout=120, expect=0, variables=None):
    """The output of a command, both streams. A status other than `expect` fails the check."""
    # A session of its own, so that nothing below the command survives it and keeps the pipe open.
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True, env={**os.environ, **(variables or {})})
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


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Pair:
    """Two cpprun of one job with one worker each, which NCCL takes for two hosts."""

    def __init__(self, arguments):
        self.token = uuid.uuid4().hex
        self.directory = tempfile.TemporaryDirectory()
        self.jobs = []
        self.begun = time.monotonic()
        port = free_port()
        for node in (0, 1):
            variables = {**os.environ, **TWO_HOSTS, "NCCL_HOSTID": f"host{node}",
                         "CPPRUN_GPU_CHECK": self.token,
                         "TORCH_FR_DUMP_TEMP_FILE": f"{self.directory.name}/trace_"}
            with open(self.path(node), "wb") as output:
                self.jobs.append(subprocess.Popen(
                    [CPPRUN, "--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1",
                     f"--master-port={port}", "--nproc-per-node=1", *arguments], env=variables,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    start_new_session=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for job in self.jobs:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        for job in self.jobs:
            job.wait(timeout=10)
        try:
            deadline = time.monotonic() + 10
            while left := self.processes():
                if time.monotonic() > deadline:
                    for pid in left:
                        os.kill(pid, signal.SIGKILL)
                    raise Failed(f"{len(left)} processes were left 10 s after the job\n{self}")
                time.sleep(0.05)
        finally:
            self.directory.cleanup()

    def __str__(self):
        return "".join(f"[node {node}, {self.jobs[node].returncode}] {self.text(node)[-2500:]}\n"
                       for node in (0, 1))

    def path(self, node):
        return f"{self.directory.name}/{node}"

    def text(self, node):
        with open(self.path(node), encoding="utf-8", errors="replace") as file:
            return file.read()

    def processes(self):
        """All processes of the job, also those whose parent has ended."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"CPPRUN_GPU_CHECK={self.token}".encode() in file.read():
                        found.append(int(pid))
            except OSError:
                pass  # it has just ended, or belongs to another user
        return found

    def find(self, node, pattern, limit):
        """The match in that node's output, as soon as it is there."""
        deadline = time.monotonic() + limit
        while True:
            ended = self.jobs[node].poll() is not None
            if found := re.search(pattern, self.text(node)):
                return found
            need(not ended, f"node {node} never printed {pattern}\n{self}")
            need(time.monotonic() < deadline, f"no {pattern} in {limit} s\n{self}")
            time.sleep(0.05)

    def wait(self, limit):
        """The exit codes of both."""
        deadline = time.monotonic() + limit
        while any(job.poll() is None for job in self.jobs):
            need(time.monotonic() < deadline, f"still running after {limit} s\n{self}")
            time.sleep(0.05)
        return [job.returncode for job in self.jobs]


def succeed(arguments, expect):
    """Runs a pair; both have to print `expect` and to succeed."""
    with Pair(arguments) as pair:
        codes = pair.wait(90)
        need(codes == [0, 0], f"exit codes {codes}\n{pair}")
        for node in (0, 1):
            need(expect in pair.text(node), f"node {node} did not print {expect}\n{pair}")


def scene(name):
    return [f"{TESTS}/worker_gpu_test", "--no-skip", f"-tc=scene over nccl: {name}"]


def side_by_side(call, arguments):
    """Most of the time of these jobs goes by while they load LibTorch."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(call, arguments))


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
    return doctest("worker_gpu_test", "-tce=two workers*")


def check_two_workers():
    """Two processes that share the GPU; one group in each process, so one job for each case."""
    for case in ("they train", "SyncBatchNorm"):
        output = run([CPPRUN, "--standalone", "--nproc-per-node=2", f"{TESTS}/worker_gpu_test",
                      f"-tc=two workers: {case}*"])
        need(output.count("1 passed | 0 failed") == 2, output[-3000:])
    return "2 cases"


def check_nccl_cases():
    """Two ranks over nccl; one job for each case."""
    listed = run([f"{TESTS}/worker_gpu_test", "--list-test-cases", "-tc=two workers*",
                  "--no-colors=true"])
    cases = re.findall(r"^two workers.*$", listed, re.MULTILINE)
    need(len(cases) >= 8, listed)

    def one(case):
        # A comma separates filters.
        succeed([f"{TESTS}/worker_gpu_test", f"-tc={case.split(',')[0]}*"], "1 passed | 0 failed")
    side_by_side(one, cases)
    return f"{len(cases)} cases"


def check_nccl_script():
    """An unmodified PyTorch script over nccl, two ranks."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/train.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        succeed([path], "total 2 of 2")
    return "total 2 of 2"


def check_nccl_kill():
    """A rank is killed during collectives over nccl."""
    before = used_mebibytes()
    with Pair(scene("collectives until one rank is killed")) as pair:
        pids = [int(pair.find(node, r"rank \d is process (\d+)", 60)[1]) for node in (0, 1)]
        time.sleep(1)  # so that both are inside
        held = used_mebibytes() - before
        os.kill(pids[1], signal.SIGKILL)
        begun = time.monotonic()
        codes = pair.wait(60)
        ended = time.monotonic() - begun
        need(0 not in codes, f"exit codes {codes}\n{pair}")
        for node in (0, 1):
            need(re.search(r"rank 1\b.*SIGKILL|SIGKILL.*rank 1\b", pair.text(node), re.DOTALL),
                 f"node {node} does not name rank 1 and SIGKILL\n{pair}")
        need(ended < 15, f"the job ended {ended:.1f} s after the kill\n{pair}")
        DETAILS.append(("nccl_kill", str(pair)))
    while used_mebibytes() > before + 100:
        need(time.monotonic() - begun < 30, f"{used_mebibytes() - before} MiB are still held")
        time.sleep(0.1)
    return f"ended after {ended:.1f} s, {held} MiB free after {time.monotonic() - begun:.1f} s"


def stall(name, note):
    """How long the note took, and how long it took until the job ended."""
    with Pair(scene(name)) as pair:
        pair.find(0, r"rank 0 is process", 60)
        begun = time.monotonic()
        pair.find(0, note, 60)
        noted = time.monotonic() - begun
        codes = pair.wait(90)
        ended = time.monotonic() - begun
        need(0 not in codes, f"exit codes {codes}\n{pair}")
        DETAILS.append((name, str(pair)))
        return f"{name}: note after {noted:.1f} s, end after {ended:.1f} s"


def check_nccl_stalls():
    """The note comes before NCCL's own watchdog ends the process, after ten seconds here."""
    return "; ".join(side_by_side(lambda each: stall(*each), [
        ("rank 1 does not come", r"in all_reduce: rank 1 is in no operation of this group"),
        ("the ranks call different collectives",
         r"rank 0 calls all_reduce; rank 1 calls broadcast"),
    ]))


def check_nccl_mask():
    """Two workers of one host with the same CUDA_VISIBLE_DEVICES."""
    crowd = [CPPRUN, "--standalone", "--nproc-per-node=2"]
    same = {"CUDA_VISIBLE_DEVICES": "0"}
    ours = run([*crowd, *scene("workers that share a mask join")], expect=1, variables=same)
    need("both have CUDA_VISIBLE_DEVICES=0" in ours, ours[-3000:])
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/train.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        theirs = run([*crowd, path], expect=1, variables=same)
    DETAILS.append(("nccl_mask, ours", ours[-2500:]))
    DETAILS.append(("nccl_mask, PyTorch", theirs[-5000:]))
    need("Duplicate GPU detected" in theirs, theirs[-3000:])
    need("cuda_device_number" in theirs, f"no such cause in\n{theirs[-3000:]}")
    return "rejected with a message; PyTorch: [cuda_device_number]"


def check_group_cases():
    return doctest("worker_group_test")


def check_torch_cases():
    return doctest("worker_torch_test")


def check_script():
    """An unmodified PyTorch script over nccl, one worker for each GPU."""
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/train.py"
        with open(path, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        output = run([CPPRUN, "--standalone", "--nproc-per-node=gpu", path])
    need("total 1 of 1" in output, output)
    return "total 1 of 1"


def check_resnet():
    """resnet_cifar on the GPU, both types, over nccl."""
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        program = f"{EXAMPLES}/resnet_cifar"
        run([program, f"--data={directory}/data", "--make-synthetic=2000"])
        for kind in ("fp32", "bf16"):
            output = run([CPPRUN, "--standalone", program, f"--data={directory}/data",
                          "--num-epochs=3", f"--model-dir={directory}/{kind}", f"--dtype={kind}",
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
    return "rejected with a message"


def check_crowd():
    """More workers than GPUs that ask for nccl."""
    output = run([CPPRUN, "--standalone", "--nproc-per-node=2", f"{EXAMPLES}/speed",
                  "--device=cuda", "--backend=nccl"], expect=1)
    need("has no GPU of its own" in output, output)
    return "rejected with a message"


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
    for name, text in DETAILS:
        print(f"\n--- details of {name}\n{text}")
    for name, error in failed:
        print(f"\n--- {name}: {error}")
    print(f"\n{len(wanted) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
