"""The store beside PyTorch's libuv server and a raw epoll echo, in one run, interleaved; medians.

    store_bench.py [--build FOLDER] [--rounds N] [--seconds S] [--quick]

Prints a table with the ratio to libuv and the goal of the design. It passes no judgement. The libuv
server runs in a mount namespace with a hosts entry for ::ffff:127.0.0.1 where that is allowed,
because it looks every client's name up; without the entry a name server is measured.
"""

import argparse
import os
import statistics
import subprocess
import sys
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

    def __init__(self, name, command):
        self.name = name
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=nothing, text=True
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


def measure(load, server, mode, connections, depth, seconds):
    """(operations per second, seconds, server CPU in us per operation)"""
    if server.name == "echo":
        mode = "echojoin" if mode == "join" else "echo"
    command = [load, server.port, mode, connections, depth, seconds, server.pid]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"note: {server.name} {mode} c={connections} x{depth}: {done.stderr.strip()}")
        return None
    return tuple(float(part) for part in done.stdout.split())


def idle_bytes(load, server, connections):
    """User memory per connection that was used once and is idle."""
    before = server.resident()
    command = [load, server.port, "idle", connections, 1, 0, server.pid]
    client = subprocess.Popen(
        [str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    client.stdout.readline()
    used = server.resident() - before
    client.stdin.close()
    client.wait()
    return used / connections


def middle(results, position):
    values = [result[position] for result in results if result]
    return statistics.median(values) if values else float("nan")


def goal_of(mode, depth):
    if depth == 1:
        return ">= 1.15"
    return {"get": ">= 8", "add": ">= 8", "set": ">= 1.5"}.get(mode, "")


def bench_operations(options, servers, load):
    print(f"{'operation':22} {'libuv':>16} {'cpprund':>16} {'echo':>16}  "
          f"{'to libuv':>8} {'CPU':>6} {'to echo':>8}  goal")
    print(f"{'':22} {'k/s    us CPU':>16} {'k/s    us CPU':>16} {'k/s    us CPU':>16}")
    for depth in (1, 16):
        for connections in (1, 50, 1000):
            for mode in ("get", "set", "add", "waitget"):
                results = {server.name: [] for server in servers}
                for _ in range(options.rounds):
                    for server in servers:
                        results[server.name].append(
                            measure(load, server, mode, connections, depth, options.seconds)
                        )
                rate = {name: middle(found, 0) for name, found in results.items()}
                cpu = {name: middle(found, 2) for name, found in results.items()}
                cells = " ".join(
                    f"{rate[name] / 1e3:9.1f} {cpu[name]:6.2f}"
                    for name in ("libuv", "cpprund", "echo")
                )
                print(
                    f"{mode:8} c={connections:<5} x{depth:<4} {cells}  "
                    f"{rate['cpprund'] / rate['libuv']:8.2f} {cpu['libuv'] / cpu['cpprund']:6.2f} "
                    f"{rate['cpprund'] / rate['echo']:8.2f}  {goal_of(mode, depth)}",
                    flush=True,
                )


def bench_connections(options, start, load):
    """Each in a fresh server, so that nothing of an earlier run is measured."""
    joins = {name: [] for name in start}
    idle = {name: [] for name in start}
    for _ in range(options.rounds):
        for name in start:
            server = start[name]()
            joins[name].append(measure(load, server, "join", 10_000, 1, 1))
            server.end()
            if name == "echo":
                continue
            server = start[name]()
            measure(load, server, "join", 10, 1, 1)
            idle[name].append(idle_bytes(load, server, 10_000))
            server.end()
    seconds = {name: middle(found, 1) for name, found in joins.items()}
    cpu = {name: middle(found, 2) for name, found in joins.items()}
    each = "   ".join(
        f"{name} {seconds[name]:.3f} s ({cpu[name]:.1f} us CPU each)" for name in joins
    )
    print(f"10,000 joins      {each}   ratio {seconds['cpprund'] / seconds['libuv']:.2f}   "
          f"goal <= 0.6")
    bytes_each = {name: statistics.median(found) for name, found in idle.items() if found}
    print(f"idle connection   libuv {bytes_each['libuv']:.0f} B   "
          f"cpprund {bytes_each['cpprund']:.0f} B   goal <= 200 B")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="folder of a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--python", default=os.environ.get("CPPRUN_PYTHON", sys.executable))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.3
    load = os.path.join(options.build, "tests/bench/store_load")
    daemon = [os.path.join(options.build, "rendezvous/cpprund")]
    daemon += ["--host", "127.0.0.1", "--port", "0", "--quiet"]
    start = {
        "libuv": lambda: start_libuv(options.python),
        "cpprund": lambda: Server("cpprund", daemon),
        "echo": lambda: Server("echo", [os.path.join(options.build, "tests/bench/raw_echo")]),
    }
    servers = [start[name]() for name in start]
    bench_operations(options, servers, load)
    for server in servers:
        server.end()
    bench_connections(options, start, load)


if __name__ == "__main__":
    main()
