# SPDX-License-Identifier: BSD-3-Clause
"""Servers that the benchmarks start and end, and where PyTorch's own one runs."""

import os
import subprocess
import tempfile

LIBUV = """
import datetime, os, sys
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, None, True, datetime.timedelta(seconds=60), use_libuv=True)
print(store.port, flush=True)
sys.stdin.read()
"""


class Server:
    """A process that prints its port in its first line and ends with its input."""

    def __init__(self, name, command, prepare=None):
        self.name = name
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=nothing, text=True, preexec_fn=prepare
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start")
        self.port = int(line.rsplit(":", 1)[-1])
        self.pid = self.process.pid

    def resident(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def end(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


def start_libuv(python):
    """PyTorch's libuv server. It looks up every client's name; a hosts entry for
    ::ffff:127.0.0.1 in a mount namespace of its own keeps a name server out of the
    measurement."""
    with open("/etc/hosts") as file:
        hosts = file.read()
    with tempfile.NamedTemporaryFile("w", suffix=".hosts", delete=False) as file:
        file.write(hosts + "\n::ffff:127.0.0.1 localhost\n")
        path = file.name
    shell = f'mount --bind {path} /etc/hosts && exec "$0" -c "$1"'
    try:
        return Server("libuv", ["unshare", "-m", "sh", "-c", shell, python, LIBUV])
    except RuntimeError:
        print("note: no mount namespace here, libuv's joins include its name look-ups")
        return Server("libuv", [python, "-c", LIBUV])
    finally:
        os.unlink(path)


def start_cpprund(build, prepare=None, secret_file=None):
    program = os.path.join(build, "rendezvous/cpprund")
    command = [program, "--host", "127.0.0.1", "--port", "0", "--quiet"]
    if secret_file:
        command += ["--secret-file", secret_file]
    return Server("cpprund", command, prepare)
