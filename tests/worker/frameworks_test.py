#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/frameworks.md with the real frameworks: frameworks_test.py CPPRUN PACKAGES.

Each command is typed as the page has it, with the shim installed: two workers train a small model.
A framework that is not installed beside PyTorch is skipped. The results have to be the same with
--probe=on and --warm, and with FRAMEWORKS_COMPARE=1 under PyTorch's own launcher. Some (with
FRAMEWORKS_ALL=1 each) run once more, with a rank that hangs, which --hang-timeout has to name.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from python_shim_test import Environment, REPOSITORY, VARIABLES, make_executable, write

REPORT = '''
import json, os, sys
import torch.distributed as dist
def report(model, **values):
    values.update(rank=int(os.environ["RANK"]), under_cpprun="CPPRUN_NODE_TOKEN" in os.environ,
                  has_probe=os.path.exists(os.environ.get("CPPRUN_PROBE_SOCKET", "")),
                  is_forked="wsgiref.validate" in sys.modules,
                  weights=sum(each.double().sum().item() for each in model.parameters()))
    sys.stdout.write("RESULT " + json.dumps(values, sort_keys=True) + "\\n")
    sys.stdout.flush()
    # A Python that exits with a process group may abort: PyTorch still has threads then.
    dist.destroy_process_group()
'''
DATA = '''
import os, time
import torch
class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows, self.count = rows, 0
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, index):
        self.count += 1
        if self.count == 13 and os.environ.get("RANK") == os.environ.get("RANK_THAT_HANGS", "none"):
            wait_for_storage()
        return self.rows[index]
def wait_for_storage():
    time.sleep(1_000_000)
def batches():
    data = torch.randn(64, 8)
    rows = torch.utils.data.TensorDataset(data, data.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(Rows(rows), batch_size=8)
'''
SCRIPTS = {
    "PyTorch": '''
import torch, torch.distributed as dist
from report import report
from data import batches
dist.init_process_group("gloo")
torch.manual_seed(7)
rows = list(batches())[dist.get_rank()::2]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
for x, y in rows:
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
report(model, workers=dist.get_world_size(), loss=loss.item())
''',
    "Accelerate": '''
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from report import report
from data import batches
set_seed(7)
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
model, optimizer, rows = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=.1), batches())
for x, y in rows:
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
report(model, workers=accelerator.num_processes, loss=loss.item())
''',
    "Lightning Fabric": '''
import torch
from lightning.fabric import Fabric, seed_everything
from report import report
from data import batches
fabric = Fabric()
seed_everything(7, verbose=False)
model = torch.nn.Linear(8, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=.1))
for x, y in fabric.setup_dataloaders(batches()):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
report(model, workers=fabric.world_size, loss=loss.item())
''',
    "Lightning Trainer": '''
import torch, lightning
from report import report
from data import batches
lightning.seed_everything(7, verbose=False)
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, _):
        x, y = batch
        return ((self.layer(x) - y) ** 2).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=.1)
model = Model()
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(model, batches())
report(model, workers=trainer.world_size)
''',
    "transformers Trainer": '''
import torch
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainingArguments,
                          set_seed)
from report import report
from data import Rows
set_seed(7)
model = BertForSequenceClassification(BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    intermediate_size=16, max_position_embeddings=16))
rows = [dict(input_ids=torch.randint(0, 50, (8,)), labels=index % 2) for index in range(32)]
settings = TrainingArguments(
    output_dir="out", use_cpu=True, num_train_epochs=1, per_device_train_batch_size=4,
    report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no", seed=7)
trainer = Trainer(model=model, args=settings, train_dataset=Rows(rows))
report(model, workers=settings.world_size, loss=trainer.train().training_loss)
''',
}
# Not on the page: nothing differs for it.
FSDP2 = '''
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from report import report
from data import batches
dist.init_process_group("gloo")
torch.manual_seed(7)
rows = batches()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 1))
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=.1)
for number, (x, y) in enumerate(rows):
    if number % 2 == dist.get_rank():
        continue
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
model.parameters = lambda each=list(model.parameters()): [one.full_tensor() for one in each]
report(model, workers=dist.get_world_size(), loss=loss.item())
'''
HANG_TIMEOUT = 5
MODULES = {"PyTorch": "torch", "FSDP2": "torch", "Accelerate": "accelerate",
           "Lightning Fabric": "lightning", "Lightning Trainer": "lightning",
           "transformers Trainer": "transformers"}
HANG = {"FSDP2", "Lightning Trainer"}
# Frameworks of the page whose commands cannot run on every machine, or are scripts of other
# projects.
NOT_RUN = {"TorchX", "DeepSpeed", "torchtitan", "axolotl"}


def typed_commands():
    """The first command of each section of the page."""
    with open(os.path.join(REPOSITORY, "docs", "frameworks.md"), encoding="utf-8") as page:
        found = re.findall(r"^\*\*(.+)\*\*\n- You type: `([^`]+)`", page.read(), re.MULTILINE)
    return dict(found)


def packages_of(interpreter):
    """The directories where it finds packages, if PyTorch is among them."""
    return subprocess.run(
        [interpreter, "-c", "import importlib.util, sys\n"
         "if importlib.util.find_spec('torch'):\n"
         "    print(*(each for each in sys.path if each.endswith('-packages')), sep='\\n')"],
        capture_output=True, text=True, timeout=60, env=VARIABLES).stdout


def python_with_frameworks():
    """A Python, and its packages: that of ./dev test --frameworks, or the running one."""
    for each in (os.path.join(REPOSITORY, "build", "frameworks", "bin", "python"), sys.executable):
        packages = packages_of(each) if os.access(each, os.X_OK) else ""
        if packages:
            return each, packages
    print("skipped: no Python with torch: use ./dev test --frameworks", flush=True)
    raise unittest.SkipTest("no Python with torch")


def alone(words):
    """In a network of its own, where the default port is free; without permission, as it is."""
    inside = ["unshare", "--map-root-user", "--net", "sh", "-c",
              'ip link set lo up; exec "$@"', "sh"]
    is_permitted = subprocess.run([*inside, "true"], capture_output=True).returncode == 0
    return [*inside, *words] if is_permitted else words


class FrameworksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        interpreter, packages = python_with_frameworks()
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.python = Environment(os.path.join(temporary.name, "environment"), interpreter)
        write(os.path.join(cls.python.site, "packages.pth"), packages)
        scripts = cls.python.python(
            "-c", "from importlib.metadata import entry_points\n"
            "for each in entry_points(group='console_scripts'):\n"
            "    if each.name in ('accelerate', 'fabric'): print(each.name, each.module, each.attr)"
        ).stdout
        for name, module, function in (line.split() for line in scripts.splitlines()):
            make_executable(write(os.path.join(cls.python.scripts, name),
                                  f"#!{cls.python.interpreter}\nimport sys\n"
                                  f"from {module} import {function}\nsys.exit({function}())\n"))
        cls.links = os.path.join(temporary.name, "links")
        os.mkdir(cls.links)
        installed = cls.python.shim("install", cls.links, first=cls.links)
        if installed.returncode != 0:
            raise AssertionError(installed.stderr)

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        write(os.path.join(self.directory, "report.py"), REPORT)
        write(os.path.join(self.directory, "data.py"), DATA)

    def run_command(self, command, **variables):
        words = command.split()
        if "CPPRUN_TORCHRUN" in variables and words[0] == "torchrun":
            # Of the shim: a link, which the switch leaves.
            words[:1] = [self.python.interpreter, "-m", "torch.distributed.run"]
        return self.python.command(
            *alone(words), first=self.links, timeout=280, cwd=self.directory, HF_HUB_OFFLINE="1",
            CUDA_VISIBLE_DEVICES="", **variables)

    def results(self, command, **variables):
        ended = self.run_command(command, **variables)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        results = [json.loads(line.partition("RESULT ")[2])
                   for line in ended.stdout.splitlines() if "RESULT " in line]
        return sorted(results, key=lambda result: result["rank"])

    def run_framework(self, framework):
        present = self.python.python(
            "-c", f"import importlib.util; print(importlib.util.find_spec({MODULES[framework]!r}))")
        if present.stdout.strip() == "None":
            print(f"skipped: {MODULES[framework]} is not installed", flush=True)
            self.skipTest(f"{MODULES[framework]} is not installed")
        write(os.path.join(self.directory, "train.py"), SCRIPTS.get(framework, FSDP2))
        command = typed_commands().get(framework, typed_commands()["PyTorch"])
        command = command.replace("…", "--nproc-per-node=2 train.py")
        results = self.results(command)
        self.assertEqual(
            [(each["rank"], each["workers"], each["under_cpprun"]) for each in results],
            [(0, 2, True), (1, 2, True)])
        self.assertEqual(results[0]["weights"], results[1]["weights"])
        # With more workers than CPUs, the first ones are forked as well.
        with_both = self.results(f"taskset --cpu-list {min(os.sched_getaffinity(0))} {command}",
                                 PET_PROBE="on", PET_WARM="torch,wsgiref.validate")
        for has_probe, each in ((False, results), (True, with_both)):
            self.assertEqual([one.pop("has_probe") for one in each], [has_probe] * 2)
        forked = [[one.pop("is_forked") for one in each] for each in (results, with_both)]
        self.assertEqual(forked[0], [False] * 2)
        # On a busy machine the parent may import for too long, and they are executed.
        print(f"{sum(forked[1])} of 2 workers were forked", flush=True)
        self.assertEqual(with_both, results)
        if os.environ.get("FRAMEWORKS_COMPARE"):
            original = self.results(command, CPPRUN_TORCHRUN="off")
            for each in original:
                self.assertFalse(each.pop("has_probe"))
                self.assertFalse(each.pop("is_forked"))
                self.assertFalse(each["under_cpprun"])
                each["under_cpprun"] = True
            self.assertEqual(results, original)
        if framework in HANG or os.environ.get("FRAMEWORKS_ALL"):
            self.name_the_rank_that_hangs(command)

    def name_the_rank_that_hangs(self, command):
        path = os.path.join(self.directory, "report.json")
        ended = self.run_command(
            command, RANK_THAT_HANGS="1", PET_HANG_TIMEOUT=str(HANG_TIMEOUT), PET_REPORT=path)
        self.assertNotEqual(ended.returncode, 0, ended.stderr)
        with open(path, encoding="utf-8") as file:
            hang = json.load(file)["hang"]
        self.assertIsNotNone(hang, ended.stderr)
        print(f"{hang['quiet']:.1f} s: {hang['verdict']}", flush=True)
        self.assertEqual(hang["rank"], 1, ended.stderr)
        self.assertIn("wait_for_storage", hang["verdict"], ended.stderr)
        self.assertLess(hang["quiet"], HANG_TIMEOUT + 5)

    def test_every_framework_of_the_page_has_a_command(self):
        self.assertEqual(set(typed_commands()), set(SCRIPTS) | NOT_RUN)

    def test_pytorch(self):
        self.run_framework("PyTorch")

    def test_fsdp2(self):
        self.run_framework("FSDP2")

    def test_accelerate(self):
        self.run_framework("Accelerate")

    def test_lightning_fabric(self):
        self.run_framework("Lightning Fabric")

    def test_lightning_trainer(self):
        self.run_framework("Lightning Trainer")

    def test_transformers_trainer(self):
        self.run_framework("transformers Trainer")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
