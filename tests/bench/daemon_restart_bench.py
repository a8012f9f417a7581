#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long a job is held up by a cpprund that is killed and begun anew (--state):

    daemon_restart_bench.py CPPRUND [AGENTS] [RUNS] [FLAG…]

AGENTS links in one process, each of which says what an agent says. Each dials again at once when
its link ends, and says that it has drained when it is asked to. Measured from the start of the new
cpprund: until the last link is back, and until the last agent has its seat in the next round. The
dialling is ours, in Python, and most of it."""

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


class Agent:
    def __init__(self, number, count, port):
        self.number, self.count, self.port = number, count, port
        self.round = 0
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
                 last_call_ms=1000, after=self.round, idle=0, sent=time.monotonic_ns() // 1000)

    def frames(self):
        """What has come; None: the link is over."""
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
            found.append(json.loads(self.bytes[4:4 + size]))
            self.bytes = self.bytes[4 + size:]
        return found


def begin(program, folder, port, flags):
    daemon = subprocess.Popen([program, "--host", "127.0.0.1", "--port", str(port), "--quiet",
                               "--no-secret", "--status-access=none", "--state", folder, *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return daemon, int(daemon.stdout.readline().rsplit(":", 1)[1])


def turn(agents, round_wanted, back):
    """Until all have a seat in that round."""
    watch = selectors.DefaultSelector()
    for agent in agents:
        watch.register(agent.socket, selectors.EVENT_READ, agent)
    while any(agent.round < round_wanted for agent in agents):
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
                elif message["say"] == "drain":
                    agent.say(say="drained", round=message["round"], unsaved_ms=0, step=0,
                              checkpoint_step=0)
                elif message["say"] == "refused":
                    sys.exit(f"refused: {message['reason']}")


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    flags = sys.argv[4:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    came_back, sealed = [], []
    with tempfile.TemporaryDirectory() as folder:
        daemon, port = begin(program, folder, 0, flags)
        agents = [Agent(number, count, port) for number in range(count)]
        turn(agents, 1, [])
        for run in range(runs):
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            began = time.monotonic()
            daemon, _ = begin(program, folder, port, flags)
            back = []
            turn(agents, run + 2, back)
            sealed.append(time.monotonic() - began)
            came_back.append(max(back) - began)
        size = sum(os.stat(os.path.join(folder, name)).st_size for name in os.listdir(folder))
        daemon.terminate()
        daemon.wait()
    print(f"{count} agents, cpprund killed and begun anew, medians of {runs}: the last link "
          f"is back after {statistics.median(came_back):.3f} s, all have a seat in the "
          f"next round after {statistics.median(sealed):.3f} s (up to {max(sealed):.3f}); "
          f"{size} bytes are kept")


main()
