# SPDX-License-Identifier: BSD-3-Clause
"""How long a heartbeat waits while clients attack the store.

    siege.py CPPRUND [ATTACK…] [--clients N] [--seconds S]

An agent joins a job of its own at a fresh daemon and sends a heartbeat every five milliseconds,
from a process of its own, while the attackers use the plain store of the same daemon. Prints a
row for each attack: the median, the 99.9th percentile and the longest of the answers, the peak
memory of the daemon, and its state at the end. The daemon may use six gigabytes of address space,
so that no attack harms the machine; a daemon that needs more dies here as it would there. Daemon
and agent have a higher priority than the attackers where that is allowed. Several daemons,
NAME=PATH each, take turns.
"""

import argparse
import json
import multiprocessing
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time

MIB = 1 << 20
ADDRESS_SPACE = 6 << 30
ZEROS = bytes(200 * MIB)  # which the kernel keeps as one page
HELLO = b"\x00\xce\xf7\x85\x3c"
SET, GET, ADD, CHECK, WAIT, APPEND, MULTI_GET, MULTI_SET, LIST_KEYS = 1, 3, 4, 5, 6, 9, 10, 11, 17


def text(data):
    return struct.pack("<Q", len(data)) + data


def request(code, *fields):
    return bytes([code]) + b"".join(map(text, fields))


def add(key, delta=1):
    return request(ADD, key) + struct.pack("<q", delta)


def keys_request(code, keys):
    return bytes([code]) + struct.pack("<Q", len(keys)) + b"".join(map(text, keys))


class Client:
    def __init__(self, port):
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(HELLO)

    def say(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def drain(self, until):
        """Reads and drops what arrives."""
        self.socket.settimeout(0.1)
        while time.monotonic() < until:
            try:
                if not self.socket.recv(MIB):
                    return
            except TimeoutError:
                continue

    def answer(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data


# --- what attackers do -------------------------------------------------------------------------


def prepare_large(port, size):
    """One value of that size under the key "v"."""
    client = Client(port)
    client.say(request(SET, b"v", bytes(size)), add(b"done"))
    client.answer(8)
    return client


def large_gets(client, until):
    """One large value, requested repeatedly, and read as fast as it arrives."""
    while time.monotonic() < until:
        client.say(request(GET, b"v") * 4)
        client.drain(min(until, time.monotonic() + 2))


def lazy_gets(client, until):
    """The same, by a client that reads nothing."""
    client.say(request(GET, b"v") * 16)
    time.sleep(max(0, until - time.monotonic()))


def large_sets(client, until):
    key = b"s%d" % (id(client) % 16)
    while time.monotonic() < until:
        client.say(bytes([SET]) + text(key) + struct.pack("<Q", len(ZEROS)), ZEROS)


def blanks(client, until):
    """A number that consists of two hundred megabytes of blanks."""
    client.say(bytes([SET]) + text(b"n") + struct.pack("<Q", 200 * MIB))
    client.say(*[b" " * MIB] * 200)
    while time.monotonic() < until:
        try:
            client.say(add(b"n") * 8)
            client.answer(64)
        except OSError:
            client.__init__(client.port)


def appends(client, until):
    client.say(request(APPEND, b"v", b"x") * 60)
    while time.monotonic() < until:
        client.say(request(APPEND, b"v", b"x") * 60, add(b"a"))
        client.answer(8)


def twelve_names(client, until):
    client.say(keys_request(MULTI_GET, [b"v"] * 12))
    time.sleep(max(0, until - time.monotonic()))


def many_keys(client, until):
    """The most keys that one request may have, and every operation on them."""
    keys = [b"k%d/%d" % (id(client), at) for at in range(131_072)]
    sets = bytes([MULTI_SET]) + struct.pack("<Q", len(keys))
    sets += b"".join(text(key) + text(b"value") for key in keys)
    while time.monotonic() < until:
        client.say(sets, keys_request(CHECK, keys), add(b"m"))
        client.answer(9)
        client.say(keys_request(MULTI_GET, keys), add(b"m"))
        client.answer(len(keys) * 13 + 8)
        client.say(bytes([LIST_KEYS]))
        for _ in range(struct.unpack("<q", client.answer(8))[0]):
            client.answer(struct.unpack("<Q", client.answer(8))[0])
            if time.monotonic() > until:
                return


def small_requests(client, until):
    """Short requests as fast as they go, thousands of them in one packet."""
    many = (request(GET, b"short") + add(b"c")) * 3000
    while time.monotonic() < until:
        client.say(many)
        client.answer(3000 * 16)


def crowds(client, until):
    """Hundreds of clients that connect together, wait for one key, are woken by it, and leave
    together."""
    name = b"go%d/" % id(client)
    count = 0
    while time.monotonic() < until:
        count += 1
        key = name + b"%d" % count
        crowd = [Client(client.port) for _ in range(500)]
        for each in crowd:
            each.say(keys_request(WAIT, [key]))
        client.say(request(SET, key, b"1"), add(b"m"))
        client.answer(8)
        for each in crowd:
            each.answer(1)
        for each in crowd:
            each.socket.close()


def given_up_waits(client, until):
    """As many keys are waited for as the limit allows, and then none is added."""
    keys = [b"never%d/%d" % (id(client), at) for at in range(131_072)]
    waits = keys_request(WAIT, keys) + add(b"m")
    while time.monotonic() < until:
        client.say(waits)
        client.answer(8)


def large_jobs(client, until):
    """Jobs of one node that end with a million keys in their store, and eight hundred clients."""
    parts = []
    for part in range(10):
        keys = [b"key%d/%d" % (part, at) for at in range(100_000)]
        sets = b"".join(text(key) + text(b"value") for key in keys)
        parts.append(bytes([MULTI_SET]) + struct.pack("<Q", len(keys)) + sets)
    count = 0
    while time.monotonic() < until:
        count += 1
        link, file, sealed = join(client.port, "large%d-%d" % (id(client), count))
        held = [Client(sealed["store_port"]) for _ in range(800)]
        worker = held[0]
        for part in parts:
            worker.say(part, add(b"m"))
            worker.answer(8)
        for each in held:
            each.say(add(b"m"))
            each.answer(8)
        link.sendall(frame(say="succeeded", round=sealed["round"]))
        while read_frame(file)["say"] != "finish":
            pass
        link.close()


# Name, attack, size of the value under "v" in MiB, attackers at most.
ATTACKS = {
    "200 MiB GETs, read": (large_gets, 200, 256),
    "200 MiB GETs, not read": (lazy_gets, 200, 256),
    "200 MiB SETs": (large_sets, 0, 256),
    "ADD to 200 MiB of blanks": (blanks, 0, 4),
    "APPENDs to 64 MiB": (appends, 64, 16),
    "12 × 64 MiB MULTI_GET, not read": (twelve_names, 64, 64),
    "131,072 keys at once": (many_keys, 0, 8),
    "3,000 requests a packet": (small_requests, 0, 256),
    "crowds that come and go": (crowds, 0, 4),
    "131,072 keys awaited, then not": (given_up_waits, 0, 8),
    "jobs that end with 10^6 keys": (large_jobs, 0, 1),
}


def attack(port, name, clients, seconds):
    act, size, most = ATTACKS[name]
    held = [prepare_large(port, size * MIB)] if size else []
    until = time.monotonic() + seconds

    def run():
        try:
            client = Client(port)
            held.append(client)
            act(client, until)
        except OSError:
            pass  # closed: the daemon may do that

    threads = [threading.Thread(target=run) for _ in range(min(clients, most))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(0)


# --- the agent ---------------------------------------------------------------------------------


def frame(**message):
    data = json.dumps(message).encode()
    return struct.pack("<I", len(data)) + data


def read_frame(file):
    return json.loads(file.read(struct.unpack("<I", file.read(4))[0]))


def join(port, job, source="127.0.0.1"):
    """A job of one node, which is agreed at once: its link, the link's file, and the agreed
    round."""
    link = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.settimeout(60)
    file = link.makefile("rb")
    link.sendall(b"cpprun1\n")
    link.sendall(
        frame(say="join", job=job, host="node", pid=2, agent=7, min=1, max=1, workers=1,
              role="default", restarts=0, backoff_ms=0, window_ms=0, final=[], addresses=[],
              lease_ms=60_000, last_call_ms=0, after=0, idle=True, sent=1)
    )
    file.read(8)
    while (message := read_frame(file))["say"] != "sealed":
        pass
    return link, file, message


def send_heartbeats(port, seconds, results):
    """The milliseconds of each answer; None comes first, when the round is agreed."""
    first_in_line()
    link, file, _ = join(port, "siege")
    results.put(None)
    trips = []
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            begun = time.monotonic()
            link.sendall(frame(say="heartbeat", sent=int(begun * 1e6), trip=0))
            while read_frame(file)["say"] != "heartbeat":
                pass
            trips.append((time.monotonic() - begun) * 1e3)
            time.sleep(0.005)
    except (OSError, struct.error):
        trips.append(float("inf"))
    results.put(trips)


# --- a row -------------------------------------------------------------------------------------


def peak_mib(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return float("nan")


def first_in_line():
    """Keeps other programs of this machine, including the attackers, out of the measurement."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
        os.setsid()  # priorities count only within a session where the kernel groups by session
        with open("/proc/self/autogroup", "w") as file:
            file.write("-15")
    except OSError:
        pass


def prepare_daemon():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    first_in_line()


def siege(program, name, clients, seconds):
    daemon = subprocess.Popen(
        [program, "--host", "127.0.0.1", "--port", "0", "--quiet"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=prepare_daemon,
    )
    port = int(daemon.stdout.readline().rsplit(":", 1)[-1])
    results = multiprocessing.Queue()
    agent = multiprocessing.Process(target=send_heartbeats, args=(port, seconds, results))
    agent.start()
    results.get(timeout=30)
    attackers = None
    if name:
        attackers = multiprocessing.Process(target=attack, args=(port, name, clients, seconds))
        attackers.start()
    trips = sorted(results.get(timeout=seconds + 120))
    peak = peak_mib(daemon.pid)
    try:
        # With a broken link it may be exiting, with gigabytes to free.
        ended = daemon.wait(timeout=10 if trips[-1] == float("inf") else 0)
    except subprocess.TimeoutExpired:
        ended = None
    for process in (attackers, agent):
        if process:
            process.kill()
            process.join()
    daemon.kill()
    daemon.wait()
    at = lambda share: trips[min(len(trips) - 1, int(len(trips) * share))]
    state = "lives" if ended is None else f"died ({ended})"
    return at(0.5), at(0.999), trips[-1], len(trips), peak, state


def cell(value):
    return "never" if value == float("inf") else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def table(programs, names, clients, seconds):
    """One column for each program; interleaved."""
    print("| clients of the store do | daemon | median, ms | 99.9 %, ms | longest, ms | answers | "
          "memory, MiB | at the end it |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        for label, program in programs.items():
            middle, rare, longest, count, peak, state = siege(program, name, clients, seconds)
            print(f"| {name or 'nothing'} | {label} | {cell(middle)} | {cell(rare)} | "
                  f"{cell(longest)} | {count:,} | {peak:,.0f} | {state} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="+", help="cpprund, or several as NAME=PATH")
    parser.add_argument("--attack", action="append", help="a name of the table; all by default")
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    programs = dict(
        word.split("=", 1) if "=" in word else (os.path.basename(word), word)
        for word in options.program
    )
    table(programs, options.attack or [None, *ATTACKS], options.clients, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
