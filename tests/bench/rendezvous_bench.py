# SPDX-License-Identifier: BSD-3-Clause
"""Meeting: crowds of agents at one cpprund, beside torchrun's c10d rendezvous, in one run,
interleaved; medians.

    rendezvous_bench.py [--build DIRECTORY] [--rounds N] [--seconds S] [--quick]
                        [--attackers N] [--rival NAME=CPPRUND]…

Ours are link_load's: real connections, the real codec, one process. torchrun's are its own
handlers, threads of one process that has imported PyTorch beforehand (with several processes their
compare-and-sets collide more often, and it takes longer), against PyTorch's libuv server in a
process of its own. Both times run from the first connection to the last agent that has its ranks.
Prints the tables of docs/performance.md and passes no judgement.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import siege
from servers import start_cpprund, start_libuv

GOALS = {2: "≤ 3 ms", 128: "≤ 20 ms", 1000: "≤ 80 ms", 10_000: "≤ 0.8 s"}
PEERS = (2, 16, 128)


def crowd(build, agents, restarts=0, idle=0, secret_file=None):
    """One run of link_load against a fresh daemon: what it prints, by name."""
    server = start_cpprund(build, secret_file=secret_file)
    command = [os.path.join(build, "tests/bench/link_load"), server.port, server.pid, agents]
    command += [restarts, idle]
    if secret_file:
        command.append(secret_file)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    server.end()
    if done.returncode != 0:
        raise RuntimeError(f"link_load with {agents} agents: {done.stderr.strip()}")
    words = done.stdout.split()
    return {name: float(value) for name, value in zip(words[::2], words[1::2])}


# Handlers that collide all the time have been seen to run for longer than this.
CROWD_SECONDS_MAX = 60


def c10d_crowd(python, agents, run_id):
    """Milliseconds until so many of torchrun's handlers have met, or None."""
    server = start_libuv(python)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "c10d_crowd.py")
    words = [python, script, server.port, agents, run_id]
    one = subprocess.Popen(
        [str(word) for word in words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    one.stdout.readline()
    print("go", file=one.stdin, flush=True)
    try:
        output, _ = one.communicate(timeout=CROWD_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        one.kill()
        one.communicate()
        note = f"note: torchrun's {agents} have not met within {CROWD_SECONDS_MAX} s"
        print(note, file=sys.stderr)
        return None
    finally:
        server.end()
    begun, ended, met = output.split()
    return (float(ended) - float(begun)) * 1e3 if int(met) == agents else None


def cell(value):
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def bench_meeting(options):
    print("| agents | torchrun c10d, ms | cpprun, ms | ratio | goal | cpprun: the next round of "
          "the same, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    runs = {}
    for agents in (2, 16, 128, 1000, 10_000):
        ours, again, theirs = [], [], []
        for round_number in range(options.rounds):
            result = crowd(options.build, agents, restarts=1)
            ours.append(result["join_ms"])
            again.append(result["restart_ms"])
            runs.setdefault(agents, []).append(result)
            if agents in PEERS and options.peer and round_number < options.peer_rounds:
                theirs.append(c10d_crowd(options.python, agents, f"bench{round_number}"))
        met = [value for value in theirs if value is not None]
        peer = statistics.median(met) if met else None
        mine = statistics.median(ours)
        ratio = f"{peer / mine:,.0f} ×" if peer else ""
        goal = GOALS.get(agents, "")
        print(f"| {agents:,} | {cell(peer)} | {cell(mine)} | {ratio} | {goal} | "
              f"{cell(statistics.median(again))} |", flush=True)
    return runs


def bench_coordinator(options, runs):
    print()
    print("| the coordinator, for each agent | CPU to join, us | CPU for the next round, us | "
          "sent and received to join, bytes | received in the next round, bytes | memory, bytes |")
    print("| --- | --- | --- | --- | --- | --- |")
    for agents, results in runs.items():
        def middle(name):
            return statistics.median(result[name] for result in results)
        # So few that the pages of the daemon itself dominate.
        memory = f"{middle('link_bytes'):,.0f}" if agents >= 1000 else ""
        print(f"| {agents:,} | {middle('join_cpu_us'):.1f} | {middle('restart_cpu_us'):.1f} | "
              f"{middle('sent_bytes'):.0f} + {middle('heard_bytes'):.0f} | "
              f"{middle('restart_bytes'):.0f} | {memory} |", flush=True)


def bench_idle(options):
    print()
    print("| agents standing by, a heartbeat a second each | coordinator's CPU | "
          "wake-ups per second |")
    print("| --- | --- | --- |")
    for agents in (2, 128, 1000, 10_000):
        result = crowd(options.build, agents, idle=options.seconds)
        print(f"| {agents:,} | {result['idle_cpu_percent']:.2f} % | "
              f"{result['idle_wake_ups']:,.0f} |", flush=True)


def bench_secret(options):
    """The same crowds without and with a secret, in turns."""
    print()
    print("| agents | | meet, ms | next round, ms | CPU to join, us | memory of a link, bytes | "
          "standing by: CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    directory = tempfile.mkdtemp()
    secret_file = os.path.join(directory, "secret")
    with open(os.open(secret_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(f"cpprun1:bench:{os.urandom(32).hex()}\n")
    try:
        for agents in (2, 1000, 10_000):
            runs = {None: [], secret_file: []}
            for _ in range(options.rounds):
                for secret, results in runs.items():
                    results.append(crowd(options.build, agents, 1, options.seconds, secret))
            for secret, results in runs.items():
                def middle(name):
                    return statistics.median(result[name] for result in results)
                memory = f"{middle('link_bytes'):,.0f}" if agents >= 1000 else ""
                print(f"| {agents:,} | {'secret' if secret else 'clear'} | "
                      f"{cell(middle('join_ms'))} | {cell(middle('restart_ms'))} | "
                      f"{middle('join_cpu_us'):.1f} | {memory} | "
                      f"{middle('idle_cpu_percent'):.2f} % |", flush=True)
    finally:
        shutil.rmtree(directory)


def bench_calls(options):
    """System calls of the coordinator while agents join, counted by strace in a separate run."""
    if not shutil.which("strace"):
        print("\nnote: no strace here, so system calls are not counted")
        return
    agents = 1000
    server = start_cpprund(options.build)
    tracer = subprocess.Popen(
        ["strace", "-c", "-f", "-p", str(server.pid)], stderr=subprocess.PIPE, text=True
    )
    attached = tracer.stderr.readline()  # "strace: Process N attached"
    load = os.path.join(options.build, "tests/bench/link_load")
    command = [load, server.port, server.pid, agents]
    subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL)
    time.sleep(0.2)
    server.end()
    table = attached + tracer.communicate()[1]
    calls = {}
    for line in table.splitlines():
        found = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", line)
        if found and found[2] != "total":
            calls[found[2]] = int(found[1])
    if not calls:
        print("\nnote: strace may not look at another process here")
        return
    often = sorted(calls.items(), key=lambda each: -each[1])[:9]
    print(f"\nSystem calls of the coordinator per agent, from connecting to the good-bye "
          f"({agents:,} agents): {sum(calls.values()) / agents:.1f}: "
          + ", ".join(f"{name} {count / agents:.1f}" for name, count in often) + ".")


def bench_siege(options):
    """A heartbeat's answer while clients attack the store; every --rival takes turns."""
    print()
    programs = {"cpprund": os.path.join(options.build, "rendezvous/cpprund")}
    programs.update(rival.split("=", 1) for rival in options.rival)
    siege.table(programs, [None, *siege.ATTACKS], options.attackers, options.seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="of standing by")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--python", default=os.environ.get("CPPRUN_PYTHON", sys.executable))
    parser.add_argument("--attackers", type=int, default=256, help="clients of a besieged store")
    parser.add_argument("--rival", action="append", default=[], metavar="NAME=CPPRUND",
                        help="another cpprund to be besieged, an older one for instance")
    parser.add_argument("--no-peer", dest="peer", action="store_false")
    parser.add_argument("--secret-alone", action="store_true", help="that table and no other")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.peer_rounds, options.seconds = 1, 1, 2
    if options.secret_alone:
        return bench_secret(options)
    runs = bench_meeting(options)
    bench_coordinator(options, runs)
    bench_idle(options)
    bench_secret(options)
    bench_calls(options)
    bench_siege(options)


if __name__ == "__main__":
    main()
