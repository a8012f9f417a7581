#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program `mnist`, from outside: mnist_test.py path/to/mnist path/to/cpprun"""

import os
import re
import subprocess
import sys
import tempfile

from ranks import free_port

MNIST, CPPRUN = sys.argv[1:]
LOSS = re.compile(r"^Epoch .*$", re.M)
END = re.compile(r"^mnist: (\d+) ranks, accuracy ([0-9.]+) %$", re.M)


def check(condition, what, output=""):
    if not condition:
        sys.exit(f"mnist_test: {what}\n{output}")


def start(*words):
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )


def end(*processes):
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    return max(process.returncode for process in processes), "".join(outputs)


def learns(ranks, *processes):
    """The lines of the losses, and the accuracy."""
    code, output = end(*processes)
    check(code == 0, f"must end well, not with {code}", output)
    said = END.findall(output)
    check(len(said) == 1 and int(said[0][0]) == ranks, f"one end of {ranks} ranks", output)
    check(float(said[0][1]) > 60, "must have learnt", output)
    check(LOSS.search(output), "losses on the way", output)
    return LOSS.findall(output) + [said[0][1]]


def main():
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "mnist")
        code, output = end(start(MNIST, "--make-synthetic=400", "--data", data))
        check(code == 0 and "wrote 400 training images" in output, "data", output)
        shape = ["--data", data, "--batch-size=20", "--log-every=5", "--lr=0.05"]

        launched = learns(2, start(CPPRUN, "--standalone", "--nproc-per-node=2", MNIST, *shape))
        by_itself = learns(2, start(MNIST, "-n", "1", "-g", "2", "-i", "0", *shape))
        check(launched == by_itself, f"one training: {launched} {by_itself}")
        meeting = ["-n", "2", "-g", "1", f"--master-port={free_port()}", *shape]
        two = learns(2, start(MNIST, *meeting, "-i", "1"), start(MNIST, *meeting, "-i", "0"))
        check(two == launched, f"on two machines as well: {two}")
        meeting = ["-n", "2", "-g", "1", f"--init-method=file://{directory}/meeting", *shape]
        by_file = learns(2, start(MNIST, *meeting, "-i", "1"), start(MNIST, *meeting, "-i", "0"))
        check(by_file == launched, f"by a file as well: {by_file}")

        shares = ["-n", "2", "-g", "2,1", f"--master-port={free_port()}", *shape]
        learns(3, start(MNIST, *shares, "--id", "1"), start(MNIST, *shares, "--id", "0"))
        by_hand = ["--world_size=2", f"--init_method=tcp://127.0.0.1:{free_port()}", *shape]
        hand = learns(2, *(start(MNIST, f"--rank={rank}", *by_hand) for rank in (1, 0)))
        check(hand == launched, f"started by hand as well: {hand}")

        def refused(words, *command):
            code, output = end(start(*command))
            check(code == 2 and words in output, f"must be refused: {words}", output)

        refused("needs --master-addr and --master-port", MNIST, "-n", "2", "-g", "1", *shape)
        refused("-g 2,1: expected the number of workers of each machine", MNIST, "-g", "2,1",
                *shape)
        refused("--rank needs --world-size", MNIST, "--rank=0", *shape)
        refused("are set by the launcher: omit them", CPPRUN, "--standalone", MNIST, "--rank=0",
                "--world-size=1", *shape)
        refused("-n and -i need -g", MNIST, "-n", "2", *shape)
        refused("omit -n, -g and -i under cpprun", CPPRUN, "--standalone", MNIST, "-g", "2",
                *shape)
        code, output = end(start(MNIST, "--data", os.path.join(directory, "none")))
        check(code != 0 and "none/train-images-idx3-ubyte" in output, "names the file", output)
    print("mnist:", "; ".join(launched))


main()
