# SPDX-License-Identifier: BSD-3-Clause
"""The store beside PyTorch's libuv server and a raw epoll echo, in one run, interleaved; medians.

    store_bench.py [--build DIRECTORY] [--rounds N] [--seconds S] [--quick] [--embedded]

Prints a table with the ratio to libuv and the goal of the design. It passes no judgement. The libuv
server runs in a mount namespace with a hosts entry for ::ffff:127.0.0.1 where that is allowed,
because it looks up every client's name; without the entry a name server is measured.
"""

import argparse
import os
import statistics
import subprocess
import sys

from servers import Server, start_cpprund, start_libuv


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


def interleaved(options, servers, load, what):
    """The median rate and server CPU of each, by its name, for (mode, connections, depth)."""
    results = {server.name: [] for server in servers}
    for _ in range(options.rounds):
        for server in servers:
            results[server.name].append(measure(load, server, *what, options.seconds))
    rate = {name: middle(found, 0) for name, found in results.items()}
    cpu = {name: middle(found, 2) for name, found in results.items()}
    return rate, cpu


def bench_operations(options, servers, load):
    print("| operation | connections | depth | libuv | cpprund | raw echo | rate | CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for depth in (1, 16):
        for connections in (1, 50, 1000):
            for mode in ("get", "set", "add", "waitget"):
                rate, cpu = interleaved(options, servers, load, (mode, connections, depth))
                cells = " | ".join(
                    f"{rate[name] / 1e3:.1f} ({cpu[name]:.2f})"
                    for name in ("libuv", "cpprund", "echo")
                )
                faster = rate["cpprund"] / (rate["libuv"] or float("nan"))
                cheaper = cpu["libuv"] / (cpu["cpprund"] or float("nan"))
                print(f"| {mode} | {connections} | {depth} | {cells} | {faster:.2f} | "
                      f"{cheaper:.2f} |", flush=True)


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
    cells = " | ".join(
        f"{seconds[name]:.2f} s ({cpu[name]:.0f} us CPU each)"
        for name in ("libuv", "cpprund", "echo")
    )
    print("\n| | libuv | cpprund | raw echo | ratio | goal |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(f"| 10,000 clients connect, shake hands and ADD | {cells} | "
          f"{seconds['cpprund'] / seconds['libuv']:.2f} | ≤ 0.6 |")
    each = {name: statistics.median(found) for name, found in idle.items() if found}
    print(f"| user memory per idle connection | {each['libuv']:,.0f} B | "
          f"{each['cpprund']:,.0f} B | – | | ≤ 200 B |")


def bench_embedded(options, start, load):
    """The store inside another program: through a connection, idle, and without a connection."""
    program = os.path.join(options.build, "tests/bench/embedded_store")
    start = {"libuv": start["libuv"], "embedded": lambda: Server("embedded", [program])}
    servers = [start[name]() for name in start]
    print("\n| embedded store | libuv | embedded | ratio | goal |")
    print("| --- | --- | --- | --- | --- |")
    rate, _ = interleaved(options, servers, load, ("get", 1, 1))
    print(f"| one client's GET | {1e6 / rate['libuv']:.1f} us | {1e6 / rate['embedded']:.1f} us | "
          f"{rate['libuv'] / rate['embedded']:.2f} | ≤ 0.7 |")
    rate, _ = interleaved(options, servers, load, ("get", 50, 1))
    print(f"| GETs of 50 clients | {rate['libuv'] / 1e3:.0f} k/s | "
          f"{rate['embedded'] / 1e3:.0f} k/s | {rate['embedded'] / rate['libuv']:.2f} | ≥ 1.5 |")
    each = {server.name: idle_bytes(load, server, 1000) for server in servers}
    print(f"| user memory per idle connection | {each['libuv']:,.0f} B | "
          f"{each['embedded']:,.0f} B | – | – |")
    for server in servers:
        server.end()
    runs = [
        subprocess.run([program, str(options.seconds)], capture_output=True, text=True, check=True)
        for _ in range(options.rounds)
    ]
    fastest, median = zip(*(map(float, run.stdout.split()) for run in runs))
    print(f"| GET inside the process | – | {statistics.median(median):.0f} ns, "
          f"fastest {min(fastest):.0f} ns | – | ≤ 300 ns |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--embedded", action="store_true", help="only the embedded store")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--python", default=os.environ.get("CPPRUN_PYTHON", sys.executable))
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.3
    load = os.path.join(options.build, "tests/bench/store_load")
    start = {
        "libuv": lambda: start_libuv(options.python),
        "cpprund": lambda: start_cpprund(options.build),
        "echo": lambda: Server("echo", [os.path.join(options.build, "tests/bench/raw_echo")]),
    }
    if not options.embedded:
        servers = [start[name]() for name in start]
        bench_operations(options, servers, load)
        for server in servers:
            server.end()
        bench_connections(options, start, load)
    bench_embedded(options, start, load)


if __name__ == "__main__":
    main()
