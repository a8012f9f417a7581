#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program `digits`, from outside: digits_test.py path/to/digits"""

import json
import os
import re
import sys
import tempfile

from ranks import run_ranks

PROGRAM = sys.argv[1]
SUMMARY = re.compile(r"digits: ([0-9.]+) % of 359 held-out images classified correctly")


def check(condition, what, ended=()):
    if not condition:
        for rank, each in enumerate(ended):
            print(f"--- rank {rank}, exit {each.code}:\n{each.output}")
        sys.exit(f"digits_test: {what}")


def accuracy_of(world_size, *options):
    ended = run_ranks([[PROGRAM, *options]] * world_size)
    check(all(each.code == 0 for each in ended), f"{world_size} ranks must end well", ended)
    found = SUMMARY.search(ended[0].output)
    check(found, "rank 0 must report the accuracy", ended)
    check(all("epoch" not in each.output for each in ended[1:]), "only rank 0 talks", ended)
    # Everything but the speed and the seconds is decided by the seed.
    lines = re.findall(r"epoch .*?%", ended[0].output)
    return float(found[1]), lines


def main():
    alone, _ = accuracy_of(1)
    check(alone > 97, f"one rank reads {alone} % right, more than 97 are expected")
    together, first = accuracy_of(2)
    check(together > 97, f"two ranks read {together} % right, more than 97 are expected")
    _, second = accuracy_of(2)
    check(first == second, f"the same seed gave other results:\n{first}\n{second}")
    _, other = accuracy_of(2, "--seed=7", "--epochs=3")
    check(other != first[:3], "another seed must give other results")

    with tempfile.TemporaryDirectory() as directory:
        files = {rank: os.path.join(directory, f"{rank}.json") for rank in range(2)}
        ended = run_ranks(
            [[PROGRAM, "--fail-at-epoch=2", "--fail-rank=1"]] * 2,
            {rank: {"TORCHELASTIC_ERROR_FILE": file} for rank, file in files.items()},
        )
        check(all(each.code == 1 for each in ended), "both must fail, one by the other", ended)
        with open(files[1]) as file:
            message = json.load(file)["message"]
        check(
            message["message"].endswith("failing on purpose in epoch 2 (--fail-at-epoch)"),
            f"the error file must name the cause: {message}",
        )
        with open(files[0]) as file:
            check("message" in json.load(file), "the survivor reports as well")

        broken = os.path.join(directory, "broken.bin")
        with open(broken, "wb") as file:
            file.write(b"DIGITS01\x02")
        ended = run_ranks([[PROGRAM, f"--data={broken}"]])
        check(ended[0].code == 1, "a damaged file must fail", ended)
        check('broken.bin": at offset 9' in ended[0].output, "and be named", ended)
    ended = run_ranks([[PROGRAM, "--epochs=0"]])
    check(ended[0].code == 2 and "--epochs: Value 0" in ended[0].output, "usage is 2", ended)
    print(f"digits: {alone} % with one rank, {together} % with two")


main()
