#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Python reads what the C++ worker writes, C++ reads what Python writes, and both compute the same
samplers, optimizers and schedules: parity_test.py path/to/parity_worker

Skipped (77) where no Python with torch is found: CPPRUN_PYTHON, else .venv/bin/python."""

import os
import pickle
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
WORKER = sys.argv[1]


def check(condition, what):
    if not condition:
        sys.exit(f"parity_test: {what}")


def worker(*arguments, code=0, given=""):
    ended = subprocess.run([WORKER, *arguments], input=given, capture_output=True, text=True,
                           timeout=120, check=False)
    check(ended.returncode == code, f"{arguments}: exit {ended.returncode}:\n{ended.stdout}"
          f"{ended.stderr}")
    return ended.stdout


def model():
    import torch

    return {
        "weight": torch.arange(6.0).view(2, 3),
        "half": torch.full((4,), 0.5, dtype=torch.half),
        "bf16": torch.full((3,), 1.5, dtype=torch.bfloat16),
        "count": torch.tensor(7),
        "mask": torch.tensor([True, True]),
        "empty": torch.zeros(0, 3),
        "strided": torch.arange(6, dtype=torch.double).view(2, 3).t(),
    }


def same(left, right):
    import torch

    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)


def check_model(found, what):
    expected = model()
    check(set(found) - {"tied"} == set(expected), f"{what}: has {sorted(found)}")
    for name, tensor in expected.items():
        check(same(found[name], tensor), f"{what}: {name} is {found[name]}")


def check_types(found, count, what):
    """Each is called by its dtype and holds the bytes from 0 to 15."""
    import torch

    check(len(found) == count, f"{what}: has {sorted(found)}")
    numbers = torch.arange(16, dtype=torch.uint8)
    for name, tensor in found.items():
        check(tensor.dtype == getattr(torch, name), f"{what}: {name} is {tensor.dtype}")
        expected = (numbers > 7).view(torch.uint8) if name == "bool" else numbers
        check(torch.equal(tensor.view(torch.uint8), expected), f"{what}: {name} is {tensor}")


def python_reads(directory):
    import torch

    worker("write", directory)
    check_model(torch.load(f"{directory}/cpp_state.pth"), "a state written by C++")
    check_types(torch.load(f"{directory}/cpp_types.pth"), 21, "every type written by C++")
    nested = torch.load(f"{directory}/cpp_nested.pth", mmap=True)
    check_model(nested["model"], "a nested file written by C++")
    tied = nested["model"]["tied"]
    check(tied.data_ptr() == nested["model"]["weight"].data_ptr(), "tied weights stay tied")
    del nested["model"]
    check(nested == {"groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1],
                                 "foreach": None}],
                     "epoch": 5_000_000_000, "name": "größer", "done": False},
          f"other values: {nested}")
    try:
        from safetensors import safe_open
        from safetensors.torch import load_file
    except ImportError:
        print("the package safetensors is not here: its reading is not checked")
        return
    check_model(load_file(f"{directory}/cpp.safetensors"), "safetensors written by C++")
    check_types(load_file(f"{directory}/cpp_types.safetensors"), 17, "every type of safetensors")
    with safe_open(f"{directory}/cpp.safetensors", "pt") as file:
        check(file.metadata()["note"] == "from C++", "metadata")


def lines_of(state, prefix=""):
    """What parity_worker prints of a state, sorted as it sorts."""
    import torch

    lines = []
    for name, value in state.items():
        name = f"{prefix}{name}"
        if isinstance(value, torch.Tensor):
            numbers = [format(number, ".17g") for number in value.double().flatten().tolist()]
            kind = {torch.float: "Float", torch.half: "Half", torch.bfloat16: "BFloat16",
                    torch.long: "Long", torch.bool: "Bool", torch.double: "Double",
                    torch.uint16: "UInt16", torch.float8_e4m3fn: "Float8_e4m3fn",
                    torch.float8_e5m2: "Float8_e5m2"}[value.dtype]
            lines.append(" ".join([name, kind, str(value.dim()), *numbers]))
        elif isinstance(value, (dict, list, tuple)):
            items = value if isinstance(value, dict) else dict(enumerate(value))
            lines += lines_of(items, f"{name}.")
        elif isinstance(value, bool):
            lines.append(f"{name} = {str(value).lower()}")
        elif value is not None:
            lines.append(f"{name} = {value}")
    return lines


def cpp_reads_one(path, value, what):
    found = sorted(worker("read", path).splitlines())
    check(found == sorted(lines_of(value)), f"{what}: C++ read\n" + "\n".join(found) +
          "\nexpected\n" + "\n".join(sorted(lines_of(value))))


def cpp_reads(directory):
    import torch

    path = f"{directory}/python.pth"
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.25)
    net(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    whole = torch.arange(10.0)
    values = {
        "an OrderedDict": net.state_dict(),
        "a dict of every type": {**model(), "short": torch.tensor([3], dtype=torch.uint16)},
        "types of eight bits": {"e4m3": torch.ones(2).to(torch.float8_e4m3fn),
                                "e5m2": torch.ones(3).to(torch.float8_e5m2)},
        "parameters": {"p": torch.nn.Parameter(torch.ones(2))},
        "views of one storage": {"head": whole[:3], "column": whole.view(5, 2)[:, 1]},
        "a run": {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
                  "big": -(1 << 40), "size": net[0].weight.shape, "none": None, "flag": True},
    }
    for what, value in values.items():
        torch.save(value, path)
        cpp_reads_one(path, value, what)
    torch.save(values["a run"], path, pickle_protocol=4)
    cpp_reads_one(path, values["a run"], "a newer pickle")
    try:
        from safetensors.torch import save_file
    except ImportError:
        return
    tensors = {name: tensor.contiguous() for name, tensor in model().items()}
    save_file(tensors, f"{directory}/python.safetensors", {"note": "from Python"})
    cpp_reads_one(f"{directory}/python.safetensors", {**tensors, "note": "from Python"},
                  "safetensors")


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


def hostile_files(directory):
    import torch

    path = f"{directory}/hostile.pth"

    def refused(why, what):
        said = worker("read", path, code=1)
        check(path in said and why in said, f"{what}: refused with {said}")

    torch.save({"weight": torch.ones(2), "evil": Evil()}, path)
    refused("unexpected name posix.system", "a pickle that calls a function")
    torch.save(torch.nn.Linear(2, 2), path)
    refused("torch.nn.modules.linear.Linear", "a whole module")
    torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    refused("not a torch.save file of PyTorch 1.6 or later", "the format before 1.6")
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    refused("a TorchScript archive", "a TorchScript archive")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/version", "3\n")
        archive.writestr("x/data.pkl", b"\0" * 100_000_000)
    refused("data.pkl has 100000000 bytes", "a bomb")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/version", "3\n")
        archive.writestr("x/data.pkl", pickle.dumps([1, 2], 2)[:-2])
    refused("the file ends in the middle of a value", "a pickle that was cut off")
    torch.save({"a": torch.ones(2000)}, path)
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    refused("not a torch.save file", "a file that was cut off")
    check(not os.path.exists("executed"), "nothing may be executed")


def samplers():
    import itertools

    from torch.utils.data import DistributedSampler

    cases, expected = [], []
    for size, replicas, shuffle, drop in itertools.product(
            (1, 2, 10, 97, 1000), (1, 2, 3, 8), (True, False), (True, False)):
        if drop and size < replicas:
            continue  # Python's own assertion fails there
        for rank, seed, epoch in ((0, 0, 0), (replicas - 1, 12345, 7)):
            sampler = DistributedSampler(range(size), replicas, rank, shuffle, seed, drop)
            sampler.set_epoch(epoch)
            cases.append(f"{size} {replicas} {rank} {int(shuffle)} {seed} {int(drop)} {epoch}")
            expected.append(list(sampler))
    found = [[int(index) for index in line.split()]
             for line in worker("sample", given="\n".join(cases)).splitlines()]
    check(len(found) == len(expected), "as many samplers")
    for case, left, right in zip(cases, expected, found):
        check(left == right, f"sampler {case}: Python {left}, C++ {right}")
    return len(cases)


def rate(base, make, steps):
    import torch

    optimizer = torch.optim.SGD([torch.zeros(1)], lr=base)
    schedule = make(optimizer)
    for _ in range(steps):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()


def warmup_cosine(warmup, total, start=1 / 3, least=0.0):
    from torch.optim import lr_scheduler as s

    return lambda optimizer: s.SequentialLR(
        optimizer, [s.LinearLR(optimizer, start, total_iters=warmup),
                    s.CosineAnnealingLR(optimizer, total - warmup, least)], [warmup])


def schedules():
    from torch.optim import lr_scheduler as s

    makes = [lambda o: s.StepLR(o, 7, 0.5), lambda o: s.CosineAnnealingLR(o, 50, 0.01),
             lambda o: s.LinearLR(o, 0.25, 0.8, 11), warmup_cosine(10, 60, 0.1, 0.02)]
    expected = list(zip(*[rate(0.3, make, 60) for make in makes]))
    for t, line in enumerate(worker("schedule").splitlines()):
        for python, cpp in zip(expected[t], map(float, line.split())):
            check(abs(python - cpp) < 1e-12, f"schedule at {t}: Python {python}, C++ {cpp}")


def optimizers():
    import torch

    makes = {
        "adam": lambda p: torch.optim.Adam(p, weight_decay=0.02, fused=True),
        "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True, fused=True),
        "adamw": lambda p: torch.optim.AdamW(p, fused=True),
        "sgd": lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=0.01, nesterov=True,
                                         fused=True),
    }
    rates = list(rate(0.05, warmup_cosine(5, 20), 20))
    lines = []
    for name, make in makes.items():
        parameters = [torch.sin(torch.arange(n, dtype=torch.float)).requires_grad_()
                      for n in (5, 33)]
        optimizer = make(parameters)
        for step in range(20):
            for each in parameters:
                each.grad = torch.cos(torch.arange(each.numel(), dtype=torch.float) * 0.7 + step)
            norm = torch.nn.utils.clip_grad_norm_(parameters, 3.0)
            lines.append((f"{name} norm", norm.item()))
            optimizer.param_groups[0]["lr"] = rates[step]
            optimizer.step()
        for each in parameters:
            lines += [(f"{name} {i}", value) for i, value in enumerate(each.tolist())]
    worst = 0
    for (name, python), line in zip(lines, worker("optimize").splitlines(), strict=True):
        check(line.rsplit(" ", 1)[0] == name, f"{line} instead of {name}")
        # Nine digits tell one float from the next.
        cpp = torch.tensor(float(line.rsplit(" ", 1)[1])).item()
        worst = max(worst, abs(python - cpp))
    check(worst < 1e-6, f"optimizers differ by {worst}")
    return worst


def exchange(directory):
    """Each optimizer's state goes through a file in both directions, in the middle of a run."""
    import torch

    makes = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.99)),
        "amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
        "fused_sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
        "fused_adamw": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    }

    def three_steps(parameters, optimizer, first):
        for step in range(first, first + 3):
            for each in parameters:
                each.grad = torch.cos(torch.arange(each.numel(), dtype=torch.float) * 0.7 + step)
            optimizer.step()

    def fresh(make):
        parameters = [torch.sin(torch.arange(n, dtype=torch.float)).requires_grad_()
                      for n in (5, 33)]
        return parameters, make([{"params": [parameters[0]]},
                                 {"params": [parameters[1]], "lr": 0.02}])

    expected = {}
    for name, make in makes.items():
        parameters, optimizer = fresh(make)
        three_steps(parameters, optimizer, 0)
        torch.save({"parameters": [each.detach().clone() for each in parameters],
                    "optimizer": optimizer.state_dict()}, f"{directory}/python_{name}.pth")
        three_steps(parameters, optimizer, 3)
        expected[name] = torch.cat(parameters).detach()
    found = {}
    for line in worker("exchange", directory).splitlines():
        found.setdefault(line.split()[0], []).append(float(line.split()[2]))
    worst = 0
    for name, make in makes.items():
        parameters, optimizer = fresh(make)
        file = torch.load(f"{directory}/cpp_{name}.pth")
        with torch.no_grad():
            for each, saved in zip(parameters, file["parameters"], strict=True):
                each.copy_(saved)
        optimizer.load_state_dict(file["optimizer"])
        check([group["lr"] for group in optimizer.param_groups] == [0.1, 0.02], f"{name}: groups")
        three_steps(parameters, optimizer, 3)
        for what, values in (("C++ to Python", torch.cat(parameters).detach()),
                             ("Python to C++", torch.tensor(found[name]))):
            difference = (values - expected[name]).abs().max().item()
            check(difference < 1e-6, f"{name}, {what}: differs by {difference}")
            worst = max(worst, difference)
    return worst


def compare():
    with tempfile.TemporaryDirectory() as directory:
        python_reads(directory)
        cpp_reads(directory)
        hostile_files(directory)
        print(f"optimizer states, both ways: largest difference {exchange(directory):.2g}")
    print(f"files: both ways; samplers: {samplers()} cases, index for index")
    schedules()
    print(f"schedules: within 1e-12; optimizers: largest difference {optimizers():.2g}")


def main():
    if sys.argv[2:] == ["--compare"]:
        compare()
        return
    for candidate in (os.environ.get("CPPRUN_PYTHON"), os.path.join(ROOT, ".venv/bin/python")):
        if candidate and os.path.exists(candidate):
            probe = subprocess.run([candidate, "-c", "import torch"], capture_output=True)
            if probe.returncode == 0:
                script = [candidate, os.path.abspath(__file__), WORKER, "--compare"]
                sys.exit(subprocess.run(script, check=False).returncode)
    print("skipped: no Python with torch (set CPPRUN_PYTHON, or make .venv with it)")
    sys.exit(77)


main()
