#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the Python package reports of a worker, and reads of a job: metrics, callbacks, the client.

python_progress_test.py CPPRUN PACKAGES. cpprunctl is in the directory of CPPRUN. The callbacks run
with frameworks of a few lines, and with the real ones if this Python has them.
"""

import importlib.util
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

CPPRUN, PACKAGES = (os.path.abspath(path) for path in sys.argv[1:3])
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if name not in ("CPPRUN_HEARTBEAT_FILE", "RANK")}
ENVIRONMENT.update(NO_COLOR="1", PATH=os.path.dirname(CPPRUN) + os.pathsep + os.environ["PATH"])


def lacks(module):
    found = importlib.util.find_spec(module)  # tests/worker/torch is no module: it has no origin
    return found is None or found.origin is None, f"this Python has no {module}"


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def python(self, body, packages=""):
        """Runs these lines, with `packages` before the package under test. Returns stdout."""
        path = os.path.join(self.directory, "lines.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(body)
        paths = [packages, PACKAGES] if packages else [PACKAGES]
        ended = subprocess.run([sys.executable, path], cwd=self.directory, capture_output=True,
                               env=dict(ENVIRONMENT, PYTHONPATH=os.pathsep.join(paths)),
                               text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.said = ended.stderr
        return ended.stdout


# Makes the heartbeat file that cpprun would make, so these tests need no job.
MADE = """
import os, sys
file = os.memfd_create("heartbeat")
os.write(file, bytes({size}))
os.environ.update(CPPRUN_HEARTBEAT_FILE=f"/proc/self/fd/{{file}}", RANK="3")
import cpprun
{body}
sys.__stdout__.write("RECORD " + os.pread(file, 1000, 0).hex())
"""


class Progress(Case):
    """Runs Python with a heartbeat file, and reads the file."""

    def record(self, body, size=264, packages=""):
        said = self.python(MADE.format(size=size, body=body), packages)
        data = bytes.fromhex(said.rpartition("RECORD ")[2])
        self.assertEqual(len(data), size)
        names = ("saved_at", "heartbeats", "time", "step", "samples", "checkpoint", "total")
        found = dict(zip(names, struct.unpack_from("=IQqQQQ", data, 20)))
        if size < 264:
            return found
        found["total"], = struct.unpack_from("=Q", data, 64)
        entries = struct.iter_unpack("=16sd", data[72:])
        found["metrics"] = {name.rstrip(b"\0").decode(): value for name, value in entries
                            if name != bytes(16)}
        found["entries"] = [data[at:at + 16].rstrip(b"\0").decode() for at in range(72, 264, 24)]
        return found


class MetricsTest(Progress):
    def test_the_total_and_metrics_are_written(self):
        found = self.record("cpprun.beat(1, 100, samples=64, loss=0.5, **{'eval/f1.x-y_2': 3})")
        self.assertEqual((found["step"], found["total"], found["samples"]), (1, 100, 64))
        self.assertEqual(found["entries"], ["loss", "eval/f1.x-y_2"] + [""] * 6)
        self.assertEqual(found["metrics"], {"loss": 0.5, "eval/f1.x-y_2": 3.0})
        self.assertEqual(self.said, "")

    def test_an_omitted_argument_keeps_its_last_value(self):
        found = self.record("cpprun.beat(1, 100, loss=0.5, lr=1e-4)\n"
                            "cpprun.beat(2, loss=0.25); cpprun.beat()")
        self.assertEqual((found["heartbeats"], found["step"], found["total"]), (3, 2, 100))
        self.assertEqual(found["metrics"], {"loss": 0.25, "lr": 1e-4})

    def test_metrics_keep_the_order_of_their_first_use(self):
        found = self.record("cpprun.beat(b=1); cpprun.beat(a=2, b=3); cpprun.beat(c=4, a=5)")
        self.assertEqual(found["entries"][:4], ["b", "a", "c", ""])
        self.assertEqual(found["metrics"], {"b": 3, "a": 5, "c": 4})

    def test_a_wrong_total_counts_as_unknown(self):
        found = self.record(
            "import struct\n"
            "class Bad:\n"
            "    def __int__(self): raise RuntimeError\n"
            "for bad in (float('nan'), float('inf'), -1, 2**64, 1e300, 'x', [], 1j, Bad()):\n"
            "    cpprun.beat(1, 10); cpprun.beat(1, bad)\n"
            "    assert struct.unpack('=Q', os.pread(file, 8, 64)) == (0,), bad\n"
            "cpprun.beat(Bad(), 2**64 - 1, samples=Bad())")
        self.assertEqual((found["total"], found["step"]), (2**64 - 1, 0))

    def test_a_value_that_is_not_a_number_is_ignored_and_takes_no_entry(self):
        found = self.record(
            "class Bad:\n"
            "    def __float__(self): raise RuntimeError\n"
            "for bad in (None, 'x', [], 1j, Bad(), 10**400): cpprun.beat(x=bad)\n"
            "cpprun.beat(y=1); cpprun.beat(y=None)")
        self.assertEqual(found["entries"][:2], ["y", ""])
        self.assertEqual((found["heartbeats"], found["metrics"]), (8, {"y": 1}))
        self.assertEqual(self.said, "")

    def test_nan_and_infinity_are_written(self):
        found = self.record("cpprun.beat(a=float('nan'), b=float('inf'), c=-float('inf'))")
        self.assertNotEqual(found["metrics"]["a"], found["metrics"]["a"])
        self.assertEqual((found["metrics"]["b"], found["metrics"]["c"]), (1e999, -1e999))

    def test_a_tensor_is_a_number_and_its_gradient_gives_no_warning(self):
        found = self.record(
            "class Tensor:\n"
            "    def __init__(self, has_gradient): self.has_gradient = has_gradient\n"
            "    def detach(self): return Tensor(False)\n"
            "    def __float__(self): assert not self.has_gradient; return 0.75\n"
            "cpprun.beat(loss=Tensor(True))")
        self.assertEqual(found["metrics"], {"loss": 0.75})

    @unittest.skipIf(*lacks("torch"))
    def test_the_tensors_of_pytorch_are_numbers(self):
        found = self.record("import torch\n"
                            "loss = torch.tensor(0.5, requires_grad=True)\n"
                            "cpprun.beat(torch.tensor(7), loss=loss, many=torch.ones(2))")
        self.assertEqual((found["step"], found["metrics"]), (7, {"loss": 0.5}))
        self.assertNotIn("requires_grad", self.said)

    def test_a_ninth_metric_is_ignored_and_reported_once(self):
        found = self.record("for _ in range(2): cpprun.beat(**{f'm{i}': i for i in range(10)})")
        self.assertEqual(found["metrics"], {f"m{i}": i for i in range(8)})
        self.assertEqual(self.said, 'rank 3: metric "m8" is ignored: this worker already reports '
                         "8 metrics, the maximum\n")

    def test_a_wrong_name_is_ignored_and_reported_once(self):
        found = self.record("names = 'a name\\n', '', 'a' * 17, 'é', 'b' * 16\n"
                            "cpprun.beat(**dict.fromkeys(names, 2))")
        self.assertEqual(found["metrics"], {"b" * 16: 2})
        self.assertEqual(self.said, 'rank 3: metric "a name\\n" is ignored: its name has '
                         "characters other than letters, digits, _ . - and /\n")

    def test_a_long_name_is_cut_in_the_report(self):
        self.record("cpprun.beat(**{'a' * 1000: 1, '': 1})")
        self.assertEqual(self.said, f'rank 3: metric "{"a" * 40}" is ignored: its name does not '
                         "have 1 to 16 characters\n")

    def test_a_closed_stderr_is_not_an_error(self):
        found = self.record("sys.stderr.close(); cpprun.beat(**{'a b': 1})\n"
                            "cpprun._heartbeat._of_this_process().has_noted = False\n"
                            "sys.stderr = None; cpprun.beat(**{'a b': 1})")
        self.assertEqual(found["heartbeats"], 2)

    def test_a_file_of_an_older_cpprun_has_no_metrics(self):
        found = self.record("cpprun.beat(5, 100, loss=1, **{'a b': 1}); cpprun.saved(5)", size=64)
        self.assertEqual((found["heartbeats"], found["step"], found["checkpoint"]), (1, 5, 5))
        self.assertEqual(self.said, "")

    def test_metrics_of_a_program_that_ran_before_are_removed(self):
        found = self.record("os.pwrite(file, b'x' * 200, 64); cpprun.beat(1, loss=2)")
        self.assertEqual((found["total"], found["metrics"]), (0, {"loss": 2}))

    def test_a_new_metric_gets_its_value_before_its_name(self):
        self.record(
            "order = []\n"
            "class Spy:\n"
            "    def __init__(self, memory): self.memory = memory\n"
            "    def __getitem__(self, at): return self.memory[at]\n"
            "    def __setitem__(self, at, value):\n"
            "        order.append((at, value)); self.memory[at] = value\n"
            "heartbeat = cpprun._heartbeat._of_this_process()\n"
            "heartbeat.words = Spy(heartbeat.words)\n"
            "heartbeat.values = Spy(heartbeat.values)\n"
            "cpprun.beat(loss=2.0)\n"
            "name = int.from_bytes(b'loss' + bytes(4), sys.byteorder)\n"
            "assert order == [(3, 2.0), (2, 0), (1, name)], order")

    def test_many_threads_share_the_metrics(self):
        found = self.record(
            "import threading\n"
            "def work(i):\n"
            "    for n in range(500): cpprun.beat(n, 500, **{f'm{(i + n) % 8}': 1, f'own{i}': n})\n"
            "threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]\n"
            "[each.start() for each in threads]; [each.join() for each in threads]")
        self.assertEqual((found["heartbeats"], found["total"]), (2000, 500))
        self.assertEqual(len(set(found["entries"])), 8)
        self.assertEqual(self.said.count("\n"), 1)
        for name, value in found["metrics"].items():
            self.assertEqual(value, 499 if name.startswith("own") else 1)

    def test_a_signal_handler_may_send_a_heartbeat_in_the_middle_of_another_one(self):
        found = self.record("import signal\n"
                            "signal.signal(signal.SIGUSR1, lambda *_: cpprun.beat(3, 9, loss=1))\n"
                            "class Slow:\n"
                            "    def __float__(self):\n"
                            "        os.kill(os.getpid(), signal.SIGUSR1); return 2.0\n"
                            "cpprun.beat(4, loss=Slow())")
        self.assertEqual((found["heartbeats"], found["total"]), (2, 9))
        self.assertEqual(found["entries"][:2], ["loss", ""])

    def test_a_forked_process_does_not_write_for_its_worker(self):
        found = self.record("cpprun.beat(5, 50, loss=1)\n"
                            "if os.fork() == 0: cpprun.beat(9, 90, loss=9, other=9); os._exit(0)\n"
                            "os.wait()")
        self.assertEqual((found["heartbeats"], found["total"], found["metrics"]),
                         (1, 50, {"loss": 1}))

    def test_outside_a_job_nothing_happens(self):
        said = self.python("import cpprun; cpprun.beat(1, float('nan'), loss=[], **{'a b': 1})\n"
                           "cpprun._heartbeat.logged({'a b': 1})")
        self.assertEqual((said, self.said), ("", ""))


class CallbackTest(Progress):
    def package(self, name, text):
        path = os.path.join(self.directory, "packages")
        for part in name.split("."):
            path = os.path.join(path, part)
            os.makedirs(path, exist_ok=True)
            open(os.path.join(path, "__init__.py"), "a", encoding="utf-8").close()
        with open(os.path.join(path, "__init__.py"), "w", encoding="utf-8") as file:
            file.write(text)

    def record(self, body):
        return super().record(body, packages=os.path.join(self.directory, "packages"))

    def lightning(self, *names):
        for name in names:
            self.package(name, "")
            self.package(f"{name}.callbacks", f"class Callback: package = {name!r}")

    def test_the_package_does_not_import_the_frameworks(self):
        self.record("cpprun.beat(1); import cpprun.client\n"
                    "for name in ('transformers', 'lightning', 'pytorch_lightning', 'torch'):\n"
                    "    assert name not in sys.modules\n"
                    "try: cpprun.transformers\n"
                    "except AttributeError: pass\n"
                    "else: raise AssertionError")

    def test_the_callback_of_transformers(self):
        self.package("transformers", "class TrainerCallback: pass")
        found = self.record(
            "from types import SimpleNamespace as State\n"
            "from cpprun.transformers import CpprunCallback\n"
            "call, state = CpprunCallback(), State(global_step=0, max_steps=50)\n"
            "call.on_train_begin(None, state, None)\n"
            "state.global_step = 7; call.on_step_end(None, state, None, model=None)\n"
            "call.on_log(None, state, None, logs={'loss': .5, 'learning_rate': 1e-4, 'note': 'x',\n"
            "    'train_runtime': 1, 'total_flos': 1, 'eval_samples_per_second': 1})\n"
            "call.on_log(None, state, None)\n"
            "call.on_prediction_step(None, state, None); call.on_save(None, state, None)")
        self.assertEqual((found["step"], found["total"], found["heartbeats"]), (7, 50, 2))
        self.assertEqual(found["metrics"], {"loss": 0.5, "learning_rate": 1e-4})
        self.assertEqual((found["checkpoint"], self.said), (7, ""))

    def test_a_resumed_transformers_training_has_a_checkpoint(self):
        self.package("transformers", "class TrainerCallback: pass")
        found = self.record(
            "from types import SimpleNamespace as State\n"
            "from cpprun.transformers import CpprunCallback\n"
            "CpprunCallback().on_train_begin(None, State(global_step=40, max_steps=50), None)")
        self.assertEqual((found["checkpoint"], found["heartbeats"]), (40, 0))

    LIGHTNING = ("from types import SimpleNamespace\n"
                 "from cpprun.lightning import CpprunCallback\n"
                 "call, trainer = CpprunCallback(), SimpleNamespace(\n"
                 "    global_step=0, log_every_n_steps=2, optimizers=[0],\n"
                 "    estimated_stepping_batches=50,\n"
                 "    callback_metrics={}, sanity_checking=False)\n")

    def test_the_callback_of_lightning(self):
        self.lightning("lightning.pytorch", "pytorch_lightning")
        found = self.record(
            self.LIGHTNING + "assert CpprunCallback.package == 'lightning.pytorch'\n"
            "call.on_train_start(trainer, None)\n"
            "for trainer.global_step in (1, 2, 3):\n"
            "    call.on_train_batch_start(trainer, None, None, 0)\n"
            "    trainer.callback_metrics = {\n"
            "        'loss': trainer.global_step, 'loss_step': 1, 'a_step': 2}\n"
            "    call.on_train_batch_end(trainer, None, None, None, 0)\n"
            "call.on_save_checkpoint(trainer, None, {})")
        self.assertEqual((found["step"], found["total"], found["heartbeats"]), (3, 50, 3))
        self.assertEqual(found["metrics"], {"loss": 2, "a_step": 2})
        self.assertEqual(found["checkpoint"], 0)  # Lightning has not yet written the file

    def test_lightnings_checkpoint_is_reported_when_it_is_complete(self):
        self.lightning("lightning.pytorch")
        self.assertEqual(self.record(
            self.LIGHTNING + "trainer.global_step = 4; call.on_save_checkpoint(trainer, None, {})\n"
            "call.on_train_batch_start(trainer, None, None, 0)")["checkpoint"], 4)
        self.assertEqual(self.record(
            self.LIGHTNING + "trainer.global_step = 5; call.on_save_checkpoint(trainer, None, {})\n"
            "call.on_fit_end(trainer, None)")["checkpoint"], 5)
        self.assertEqual(self.record(
            self.LIGHTNING + "call.on_load_checkpoint(trainer, None, {'global_step': 6})\n"
            "call.on_train_batch_start(trainer, None, None, 0)")["checkpoint"], 6)

    def test_a_validation_of_lightning_sends_heartbeats(self):
        self.lightning("lightning.pytorch")
        found = self.record(
            self.LIGHTNING + "trainer.callback_metrics = {'val_loss': 2}\n"
            "call.on_validation_batch_end(trainer, None, None, None, 0)\n"
            "call.on_validation_end(trainer, None)\n"
            "trainer.sanity_checking, trainer.callback_metrics = True, {'other': 1}\n"
            "call.on_validation_batch_end(trainer, None, None, None, 0, dataloader_idx=1)\n"
            "call.on_validation_end(trainer, None)")
        self.assertEqual((found["heartbeats"], found["metrics"]), (1, {"val_loss": 2}))

    def test_a_total_that_lightning_cannot_compute_is_unknown(self):
        self.lightning("lightning.pytorch")
        for total in ("float('inf')", "-1"):
            found = self.record(self.LIGHTNING + f"trainer.estimated_stepping_batches = {total}\n"
                                "call.on_train_start(trainer, None)\n"
                                "call.on_train_batch_end(trainer, None, None, None, 0)")
            self.assertEqual((found["total"], found["heartbeats"]), (0, 1))
        found = self.record(self.LIGHTNING + "del trainer.estimated_stepping_batches\n"
                            "call.on_train_start(trainer, None)\n"
                            "call.on_train_batch_end(trainer, None, None, None, 0)")
        self.assertEqual((found["total"], found["heartbeats"]), (0, 1))

    def test_the_lightning_package_that_is_in_use_is_preferred(self):
        self.lightning("lightning.pytorch", "pytorch_lightning")
        self.record("import pytorch_lightning\n" + self.LIGHTNING
                    + "assert CpprunCallback.package == 'pytorch_lightning'\n"
                    "assert 'lightning.pytorch' not in sys.modules")

    def test_pytorch_lightning_alone_is_enough(self):
        self.lightning("pytorch_lightning")
        self.package("lightning", "raise ImportError")  # this Python may have it
        self.record(self.LIGHTNING + "assert CpprunCallback.package == 'pytorch_lightning'")


@unittest.skipIf(*lacks("transformers"))
class TransformersTest(Progress):
    def test_a_training_reports_its_progress(self):
        found = self.record("""
import torch
from transformers import Trainer, TrainingArguments
from cpprun.transformers import CpprunCallback
class Model(torch.nn.Module):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(2, 1)
    def forward(self, x=None, labels=None):
        return {"loss": (self.layer(x) - labels).square().mean()}
data = [{"x": torch.ones(2), "labels": torch.ones(1)}] * 8
arguments = TrainingArguments("saved", max_steps=5, logging_steps=1, save_steps=2, use_cpu=True,
                              per_device_train_batch_size=2, report_to=[], disable_tqdm=True,
                              remove_unused_columns=False, label_names=["labels"])
Trainer(Model(), arguments, train_dataset=data, callbacks=[CpprunCallback()]).train()
""")
        self.assertEqual((found["step"], found["total"], found["heartbeats"]), (5, 5, 5))
        self.assertEqual(found["checkpoint"], 5)
        self.assertEqual(found["entries"][:3], ["loss", "grad_norm", "learning_rate"])


@unittest.skipIf(*lacks("lightning"))
class LightningTest(Progress):
    def test_a_training_reports_its_progress(self):
        found = self.record("""
del os.environ["RANK"]  # of a job, whose other variables Lightning would want, too
import torch
import lightning.pytorch as lightning
from cpprun.lightning import CpprunCallback
class Model(lightning.LightningModule):
    def __init__(self): super().__init__(); self.layer = torch.nn.Linear(2, 1)
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.1)
    def training_step(self, batch, index):
        loss = self.layer(batch).square().mean()
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss
    def validation_step(self, batch, index): self.log("val_loss", self.layer(batch).mean())
data = torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False,
                            log_every_n_steps=1, enable_progress_bar=False,
                            callbacks=[CpprunCallback()])
trainer.fit(Model(), data, data)
""")
        self.assertEqual((found["step"], found["total"], found["heartbeats"]), (8, 8, 16))
        self.assertEqual(found["checkpoint"], 8)
        self.assertEqual(found["entries"][:3], ["loss", "val_loss", ""])


class ClientTest(Case):
    def client(self, body):
        return json.loads(self.python("import json, os, time\n"
                                      "from cpprun import client\n" + body))

    def start(self, name):
        """Starts a job, and returns its address. So no other job of this machine is seen."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        job = subprocess.Popen(
            [CPPRUN, "--nnodes=1", "--master-addr=127.0.0.1", f"--master-port={port}",
             f"--rdzv-id={name}", "--no-python", "sleep", "600"],
            env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        return f"127.0.0.1:{port}"

    def stand_in(self, text):
        """The lines that make the client run this shell script in place of cpprunctl."""
        path = os.path.join(self.directory, "cpprunctl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return f"client.find_program = lambda name: {self.directory!r} + '/' + name\n"

    def test_the_state_of_a_job(self):
        jobs, job, nodes, events, failed = self.client(f"""
at = {{"address": {self.start("train-10")!r}}}
while True:
    try:
        if client.nodes("train-10", **at): break
    except client.ClientError: pass
    time.sleep(0.01)
failed = []
for call, name in (client.job, "train-1"), (client.events, "train-1"), (client.nodes, "-x"):
    try: call(name, **at)
    except client.ClientError as error: failed.append([str(error), error.exit_code])
print(json.dumps([client.jobs(**at), client.job("train-10", **at), client.nodes("train-10", **at),
                  client.events("train-10", **at), failed]))""")
        self.assertEqual([each["job"] for each in jobs], ["train-10"])
        self.assertEqual((job["job"], len(job["members"])), ("train-10", 1))
        self.assertEqual([each["rank"] for each in nodes[0]["ranks"]], [0])
        self.assertEqual(events[0]["event"], "job_started")
        self.assertEqual(len(failed), 3)
        for message, code in failed:
            self.assertRegex(message, '^unknown job "(train-1|-x)"; known: "train-10"')
            self.assertEqual(code, 1)

    def test_a_failure_has_the_message_of_cpprunctl(self):
        found = self.client("""
failed = []
for call in (lambda: client.jobs(address="127.0.0.1:1"), lambda: client.job("")):
    try: call()
    except client.ClientError as error: failed.append([str(error), error.exit_code])
print(json.dumps(failed))""")
        self.assertRegex(found[0][0], "^127.0.0.1:1: cannot reach")
        self.assertRegex(found[1][0], "empty value")
        self.assertEqual([each[1] for each in found], [69, 2])

    def test_without_an_address_the_jobs_of_this_machine_are_read(self):
        found = self.client(
            self.stand_in('printf \'{"jobs": ["%s"], "silent": []}\\n\' "$*"')
            + "print(json.dumps([client.jobs(), client.jobs(address='head:29400')]))")
        self.assertEqual(found, [["ls --json"], ["ls --json --address=head:29400"]])

    def test_line_breaks_of_other_alphabets_do_not_end_an_event(self):
        found = self.client(self.stand_in("printf '{\"job\": \"a\\342\\200\\250\"}\\n'")
                            + "print(json.dumps(client.events('a\u2028')))")
        self.assertEqual(found, [{"job": "a\u2028"}])

    def test_a_job_without_events_has_none(self):
        self.assertEqual(self.client(self.stand_in("exit 0")
                                     + "print(json.dumps(client.events('a')))"), [])

    def test_a_failure_without_a_message_has_the_exit_code(self):
        found = self.client(self.stand_in("exit 3") + "try: client.events('a')\n"
                            "except client.ClientError as error: print(json.dumps(str(error)))")
        self.assertEqual(found, "cpprunctl events failed with exit code 3")

    def test_output_that_is_not_json_is_an_error(self):
        found = self.client(self.stand_in("echo text") + "try: client.job('a')\n"
                            "except client.ClientError as error: print(json.dumps(str(error)))")
        self.assertRegex(found, "Expecting value")

    def test_a_missing_program_is_an_error_of_the_client(self):
        found = self.client("def missing(name): raise FileNotFoundError('no program')\n"
                            "client.find_program = missing\n"
                            "try: client.jobs()\n"
                            "except client.ClientError as error: print(json.dumps(str(error)))")
        self.assertEqual(found, "no program")

    def test_the_package_loads_the_client_when_it_is_used(self):
        self.python("import cpprun, sys\n"
                    "assert 'cpprun.client' not in sys.modules\n"
                    "cpprun.client.jobs")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
