#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program `resnet_cifar`, from outside, and beside the same training in Python:
resnet_cifar_test.py path/to/resnet_cifar path/to/compare_models path/to/cpprun"""

import os
import re
import struct
import subprocess
import sys
import tempfile

from ranks import run_ranks

PROGRAM, COMPARE, CPPRUN = sys.argv[1:]
REFERENCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resnet_reference.py")
EPOCHS = re.compile(r"^epoch .*$", re.M)
SHAPE = ["--width=8", "--batch-size=16", "--augment=off", "--learning-rate=0.05"]


def check(condition, what, output=""):
    if not condition:
        sys.exit(f"resnet_cifar_test: {what}\n{output}")


def python_with_torch():
    for python in (os.environ.get("CPPRUN_PYTHON"), ".venv/bin/python", sys.executable):
        if not python:
            continue
        found = subprocess.run(
            [python, "-c", "import torch; assert torch.__version__ >= '2.6'"],
            stderr=subprocess.DEVNULL, cwd=os.path.join(os.path.dirname(REFERENCE), "..", ".."),
        )
        if found.returncode == 0:
            return os.path.join(os.path.dirname(REFERENCE), "..", "..", python)
    return None


def pickled(records):
    """The batch of cifar-10-batches-py that Python 2 would have written for a data_batch_N.bin."""
    count = len(records) // 3073
    labels = bytes(records[n * 3073] for n in range(count))
    pixels = b"".join(records[n * 3073 + 1:(n + 1) * 3073] for n in range(count))
    return (b"\x80\x02}(U\x06labels](" + b"".join(b"K" + bytes([label]) for label in labels)
            + b"eU\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b"
            b"\x87R(K\x01J" + struct.pack("<i", count)
            + b"M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01"
            b"\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
            + struct.pack("<I", len(pixels)) + pixels + b"tbu.")


def as_torchvision_has_it(data, directory):
    os.mkdir(directory)
    for name in os.listdir(data):
        with open(os.path.join(data, name), "rb") as file:
            content = pickled(file.read())
        with open(os.path.join(directory, name.removesuffix(".bin")), "wb") as file:
            file.write(content)


def epochs_of(ended):
    check(all(each.code == 0 for each in ended), "every rank must end well",
          "".join(each.output for each in ended))
    return EPOCHS.findall(ended[0].output)


def launch(*words, code=0):
    ended = subprocess.run(
        [CPPRUN, "--standalone", "--nproc-per-node=2", *words], text=True, timeout=200,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    check(ended.returncode == code, f"must end with {code}, not {ended.returncode}", ended.stdout)
    return ended.stdout


def main():
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "cifar")
        common = [PROGRAM, f"--data={data}", *SHAPE]
        run_ranks([[*common, "--make-synthetic=128"]])

        def to(name):
            return [f"--model-dir={os.path.join(directory, name)}", "--model-filename=m.pth"]

        # The weights both begin with, and the same run in both languages.
        epochs_of(run_ranks([[*common, *to("initial"), "--num-epochs=0"]]))
        initial = os.path.join(directory, "initial", "m.pth")
        mine = epochs_of(run_ranks(
            [[*common, *to("mine"), "--num-epochs=2", f"--initial={initial}"]] * 2))
        check(len(mine) == 2, f"two epochs, not {mine}")
        old = os.path.join(directory, "cifar-10-batches-py")
        as_torchvision_has_it(data, old)
        from_pickles = epochs_of(run_ranks(
            [[*common, f"--data={old}", *to("old"), "--num-epochs=1", f"--initial={initial}"]] * 2))
        check(from_pickles[0].split("loss")[1] == mine[0].split("loss")[1],
              f"the same images from pickles:\n{mine[0]}\n{from_pickles}")
        python = python_with_torch()
        if python:
            wrapped = os.path.join(directory, "wrapped.pth")
            subprocess.run(
                [python, "-c", "import sys, torch; torch.save({'module.' + name: each for name, "
                 "each in torch.load(sys.argv[1]).items()}, sys.argv[2])", initial, wrapped],
                check=True)
            compared = subprocess.run([COMPARE, initial, wrapped], text=True,
                                      stdout=subprocess.PIPE)
            check(compared.returncode == 0 and "the models are the same" in compared.stdout,
                  "a model in its wrapper is the same model", compared.stdout)
            words = [python, REFERENCE, initial, data, "8", "2", "16", "0.05", "0"]
            theirs = epochs_of(run_ranks([words] * 2))
            check(mine == theirs, f"C++ and Python must print the same:\n{mine}\n{theirs}")
        else:
            print("skipped: no Python with torch to compare with")

        # A rank dies between two checkpoints: the curve is the undisturbed one.
        undisturbed = EPOCHS.findall(launch(*common, *to("whole"), "--num-epochs=3"))
        disturbed = launch("--max-restarts=1", *common, *to("killed"), "--num-epochs=3", "--resume",
                           "--save-every=2", "--fail-at-step=7", "--fail-rank=1", )
        check("resuming at step 6" in disturbed, "it must go on from the checkpoint", disturbed)
        check(EPOCHS.findall(disturbed)[-2:] == undisturbed[-2:],
              f"killed or not, the curve must be one:\n{undisturbed}", disturbed)

        # Without the launcher's restart, --resume later.
        launch(*common, *to("once"), "--num-epochs=3", "--save-every=2", "--fail-at-step=7",
               code=137)
        later = launch(*common, *to("once"), "--num-epochs=3", "--resume")
        same = EPOCHS.findall(later)[-2:] == undisturbed[-2:]
        check(same, f"later as well: {undisturbed}", later)
        refused = launch(*common, *to("once"), "--num-epochs=3", code=1)
        check("use --resume" in refused, "old checkpoints are not run over", refused)

        # Statistics of batch normalisation differ between ranks unless they are synchronised.
        for options, code, words in ((["--sync-bn"], 0, "the models are the same"),
                                     ([], 1, "only running statistics differ")):
            name = "synced" if options else "plain"
            launch(*common, *to(name), "--num-epochs=1", "--save-each-rank", *options)
            files = [os.path.join(directory, name, f"rank{rank}-m.pth") for rank in range(2)]
            compared = subprocess.run([COMPARE, *files], text=True, stdout=subprocess.PIPE)
            check(compared.returncode == code and words in compared.stdout,
                  f"{name}: must end with {code} and say: {words}", compared.stdout)
    print("resnet_cifar:", "; ".join(mine))


main()
