#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long a job is interrupted by a cpprund that is killed and restarted (--state):

    daemon_restart_bench.py CPPRUND [AGENTS] [RUNS] [KEYS] [FLAG…]

AGENTS links in one process, each of which sends what an agent sends. Each dials again at once when
its link ends. Measured from the start of the new cpprund: until the last link is back, and until
the job resumes. Without KEYS workers use its store directly, which is lost: each agent reports
that it has drained when it is asked to, and the job resumes when the last one has its seat in the
next round. With KEYS stores are local, the first agent's worker has set so many keys, and the job
resumes when that one has received the last key's value. The dialling is ours, in Python, and most
of it."""

import json
import os
import resource
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PREAMBLE = b"cpprun1\n"
MARK, OPEN, BYTES, TAKEN, STREAM = 1, 1, 2, 3, 1  # proto/link/binary_frame.h
HELLO = struct.pack("<BI", 0, 0x3C85F7CE)  # VALIDATE
SET, GET = 1, 3  # PyTorch's
SAID_MAX = 200 * 1024  # of what the other side has not taken


def lengthy(text):
    return struct.pack("<Q", len(text)) + text


class Agent:
    def __init__(self, number, count, port, keys):
        self.number, self.count, self.port, self.keys = number, count, port, keys
        self.round, self.is_back = 0, False
        self.unsaid, self.said, self.taken, self.received, self.answer = b"", 0, 0, 0, b""
        self.dial()

    def say(self, **message):
        body = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def dial(self):
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port))
                break
            except ConnectionRefusedError:
                time.sleep(0.001)
        self.bytes, self.greeted = b"", False
        self.socket.sendall(PREAMBLE)
        self.say(say="join", job="crowd", host=f"host{self.number}", pid=self.number + 1,
                 agent=self.number + 1, min=self.count, max=self.count, workers=1, role="default",
                 restarts=0, backoff_ms=0, window_ms=0, final=[], addresses=[], lease_ms=60000,
                 last_call_ms=1000, after=self.round, idle=0, sent=time.monotonic_ns() // 1000,
                 **({"local_store": True} if self.keys else {}))

    def frames(self):
        """What has arrived; None: the link is closed."""
        try:
            more = self.socket.recv(65536)
        except ConnectionResetError:
            return None
        if not more:
            return None
        self.bytes += more
        if not self.greeted and self.bytes.startswith(PREAMBLE):
            self.bytes, self.greeted = self.bytes[len(PREAMBLE):], True
        found = []
        while len(self.bytes) >= 4:
            size = struct.unpack("<I", self.bytes[:4])[0]
            if len(self.bytes) < 4 + size:
                break
            frame, self.bytes = self.bytes[4:4 + size], self.bytes[4 + size:]
            if frame[0] == MARK:
                self.hear_records(frame[5:])
            else:
                found.append(json.loads(frame))
        return found

    # The requests of its worker to its store, and the answers.

    def say_records(self, *records):
        body = struct.pack("<BI", MARK, self.round) + b"".join(records)
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def hear_records(self, records):
        while records:
            kind, _ = struct.unpack("<BI", records[:5])
            if kind == BYTES:
                place, size = struct.unpack("<QI", records[5:17])
                # Some of it may have been sent before: the acknowledgement may have been lost.
                self.answer += records[17 + max(0, self.received - place):17 + size]
                self.received = max(self.received, place + size)
                records = records[17 + size:]
                self.say_records(struct.pack("<BIQ", TAKEN, STREAM, place + size))
            elif kind == TAKEN:
                self.taken = struct.unpack("<Q", records[5:13])[0]
                records = records[13:]
                self.go_on_asking()
            else:
                sys.exit(f"a record of the kind {kind} for a stream that is open")

    def ask(self, requests):
        self.unsaid += requests
        self.go_on_asking()

    def go_on_asking(self):
        room = SAID_MAX - (self.said - self.taken)
        part, self.unsaid = self.unsaid[:room], self.unsaid[room:]
        for at in range(0, len(part), 16384):
            piece = part[at:at + 16384]
            self.say_records(struct.pack("<BIQI", BYTES, STREAM, self.said, len(piece)) + piece)
            self.said += len(piece)


def begin(program, directory, port, flags):
    daemon = subprocess.Popen([program, "--host", "127.0.0.1", "--port", str(port), "--quiet",
                               "--no-secret", "--status-access=none", "--state", directory, *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return daemon, int(daemon.stdout.readline().rsplit(":", 1)[1])


def turn(agents, is_done, back):
    """Waits until the condition holds."""
    watch = selectors.DefaultSelector()
    for agent in agents:
        watch.register(agent.socket, selectors.EVENT_READ, agent)
    while not is_done():
        for key, _ in watch.select():
            agent = key.data
            said = agent.frames()
            if said is None:
                watch.unregister(agent.socket)
                agent.dial()
                watch.register(agent.socket, selectors.EVENT_READ, agent)
                back.append(time.monotonic())
                continue
            for message in said:
                if message["say"] == "sealed":
                    agent.round = message["round"]
                elif message["say"] == "heartbeat":
                    agent.is_back = True
                elif message["say"] == "drain":
                    agent.say(say="drained", round=message["round"], unsaved_ms=0, step=0,
                              checkpoint_step=0)
                elif message["say"] == "refused":
                    sys.exit(f"refused: {message['reason']}")


def have_seats(agents, round_wanted):
    return lambda: all(agent.round >= round_wanted for agent in agents)


def set_keys(agents, keys):
    """A worker of the first agent sets the keys, and receives confirmation of the last one."""
    agent = agents[0]
    agent.say_records(struct.pack("<BI", OPEN, STREAM))
    agent.ask(HELLO + b"".join(bytes([SET]) + lengthy(b"key%d" % number) +
                               lengthy(b"value%d" % number) for number in range(keys)))
    ask_for_last(agents, keys)()
    turn(agents, lambda: agent.answer == lengthy(b"value%d" % (keys - 1)), [])


def ask_for_last(agents, keys):
    def ask():
        agents[0].answer = b""
        agents[0].ask(bytes([GET]) + lengthy(b"key%d" % (keys - 1)))
    return ask


def is_going_on(agents, keys):
    """All are back, and the first agent's worker has received the last key's value."""
    agent = agents[0]
    state = {"asked": False}

    def holds():
        if agent.is_back and not state["asked"]:
            state["asked"] = True
            ask_for_last(agents, keys)()
        return (all(each.is_back for each in agents) and
                agent.answer == lengthy(b"value%d" % (keys - 1)))
    return holds


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    keys = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    flags = sys.argv[5:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    came_back, goes_on = [], []
    with tempfile.TemporaryDirectory() as directory:
        daemon, port = begin(program, directory, 0, flags)
        agents = [Agent(number, count, port, keys) for number in range(count)]
        turn(agents, have_seats(agents, 1), [])
        if keys:
            set_keys(agents, keys)
        for run in range(runs):
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            began = time.monotonic()
            daemon, _ = begin(program, directory, port, flags)
            back = []
            for agent in agents:
                agent.is_back = False
            turn(agents, is_going_on(agents, keys) if keys else have_seats(agents, run + 2), back)
            goes_on.append(time.monotonic() - began)
            came_back.append(max(back) - began)
        size = sum(os.stat(os.path.join(directory, name)).st_size for name in os.listdir(directory))
        daemon.terminate()
        daemon.wait()
    how = (f"the last of {keys} keys is read after" if keys else
           "all have a seat in the next round after")
    print(f"{count} agents, cpprund killed and restarted, medians of {runs}: the last link "
          f"is back after {statistics.median(came_back):.3f} s, {how} "
          f"{statistics.median(goes_on):.3f} s (up to {max(goes_on):.3f}); {size} bytes are kept")


main()
