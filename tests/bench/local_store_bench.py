# SPDX-License-Identifier: BSD-3-Clause
"""A store through the agent of a node, beside the same store reached directly and PyTorch's libuv
server, in one run, interleaved; medians.

    local_store_bench.py [--build DIRECTORY] [--rounds N] [--seconds S]

Two nodes here have a secret; the load uses the second one's port of loopback, as its workers
do, so that all its requests pass through the link to the first. It passes no judgement.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile

from servers import Server, start_libuv
from store_bench import interleaved


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """Two nodes whose workers do nothing; `port` is where those of the second find their store."""

    def __init__(self, name, build, secret, kind):
        program = os.path.join(build, "launcher/cpprun")
        port = free_port()

        def node(rank):
            return [program, "--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1",
                    f"--master-port={port}", f"--secret-file={secret}", f"--store={kind}",
                    "--no-python", "sh", "-c", "echo :$MASTER_PORT; exec sleep 3600"]

        self.name = name
        self.first = subprocess.Popen(node(0), stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
        self.second = Server(name, node(1))
        self.port, self.pid = self.second.port, self.second.pid

    def end(self):
        self.first.terminate()
        self.first.wait()
        self.second.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--python", default=os.environ.get("CPPRUN_PYTHON", sys.executable))
    options = parser.parse_args()
    load = os.path.join(options.build, "tests/bench/store_load")
    with tempfile.TemporaryDirectory() as directory:
        secret = os.path.join(directory, "secret")
        keygen = [os.path.join(options.build, "launcher/cpprunctl"), "keygen", secret]
        subprocess.run(keygen, check=True, stdout=subprocess.DEVNULL)
        servers = [
            start_libuv(options.python),
            Job("direct", options.build, secret, "direct"),
            Job("local", options.build, secret, "local"),
        ]
        print("| operation | connections | depth | libuv | direct | through the agent | "
              "of direct | of libuv |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for connections, depth in ((1, 1), (1, 16), (50, 1), (50, 16)):
            for mode in ("get", "set", "add"):
                rate, _ = interleaved(options, servers, load, (mode, connections, depth))
                cells = " | ".join(f"{rate[name] / 1e3:.1f}"
                                   for name in ("libuv", "direct", "local"))
                print(f"| {mode} | {connections} | {depth} | {cells} | "
                      f"{rate['local'] / rate['direct']:.2f} | "
                      f"{rate['local'] / rate['libuv']:.2f} |", flush=True)
        for server in servers:
            server.end()


if __name__ == "__main__":
    main()
