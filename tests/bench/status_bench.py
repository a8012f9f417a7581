# SPDX-License-Identifier: BSD-3-Clause
"""Status requests: what they cost a cpprund, and how long a heartbeat waits for
its answer meanwhile.

    status_bench.py [--build DIRECTORY] [--seconds S]

link_load's agents have real connections, send a heartbeat a second each, and report what their
eight workers do when they are asked. One more agent, in a process and a job of its own, sends a
heartbeat every five milliseconds and measures the time of each answer. Prints the last two tables
of "Monitoring" in docs/performance.md and passes no judgement.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import threading
import time

import siege
from servers import start_cpprund

JOB = "/api/v1/jobs/bench"
READERS_MAX = 16  # bounds::status_connections_max


def cpu_seconds(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


class Reader:
    """A client that reads over one persistent connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, target):
        self.connection.request("GET", target)
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{target} was answered with {answer.status}: {body[:200]}")
        return body

    def pages(self):
        """All nodes of the job, page by page, as fast as they arrive."""
        place = None
        while True:
            page = json.loads(self.get(f"{JOB}/nodes" + (f"?after={place}" if place else "")))
            place = page["next"]
            if place is None:
                return


def measure_heartbeats(port, name, seconds, results):
    """The milliseconds of each answer."""
    siege.first_in_line()
    # The crowd may have taken all links that a daemon accepts from one address.
    link, file, _ = siege.join(port, name, "127.0.0.200")
    trips = []
    until = time.monotonic() + seconds
    while (begun := time.monotonic()) < until:
        link.sendall(siege.frame(say="heartbeat", sent=int(begun * 1e6), trip=0))
        while siege.read_frame(file)["say"] != "heartbeat":
            pass
        trips.append((time.monotonic() - begun) * 1e3)
        time.sleep(0.005)
    results.put(trips)


def once_a_second(reader, look, until):
    next_look = time.monotonic()
    while time.monotonic() < until:
        look(reader)
        next_look += 1
        time.sleep(max(0, min(next_look, until) - time.monotonic()))


def all_the_time(reader, look, until):
    while time.monotonic() < until:
        look(reader)


def a_crowd(reader, look, until):
    """One less than the most readers that a daemon serves at once."""
    readers = [Reader(reader.connection.port) for _ in range(READERS_MAX - 1)]
    each = [threading.Thread(target=all_the_time, args=(one, look, until)) for one in readers]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()


def no_reader(reader, look, until):
    time.sleep(max(0, until - time.monotonic()))


SCENES = (
    ("no reader", no_reader, None),
    ("`/metrics`, once a second", once_a_second, lambda reader: reader.get("/metrics")),
    ("`/metrics`, all the time", all_the_time, lambda reader: reader.get("/metrics")),
    ("`/api/v1/jobs/ID`, all the time", all_the_time, lambda reader: reader.get(JOB)),
    ("every page of its nodes, all the time", all_the_time, lambda reader: reader.pages()),
    ("15 readers of a page of nodes, all the time", a_crowd,
     lambda reader: reader.get(f"{JOB}/nodes")),
)


def all_there(port, agents):
    """Waits until the round runs; the list of jobs asks no node for statistics."""
    reader = Reader(port)
    while True:
        jobs = json.loads(reader.get("/api/v1/jobs"))["jobs"]
        if jobs and jobs[0]["nodes"]["running"] == agents:
            return reader
        time.sleep(0.05)


def play(server, reader, index, scene, seconds):
    """The share of a core that it cost, and the answers' median, 99.9th percentile and longest."""
    _, how, look = scene
    results = multiprocessing.Queue()
    words = (server.port, f"beats{index}", seconds, results)
    agent = multiprocessing.Process(target=measure_heartbeats, args=words)
    agent.start()
    before = cpu_seconds(server.pid)
    begun = time.monotonic()
    how(reader, look, begun + seconds)
    passed = time.monotonic() - begun
    share = (cpu_seconds(server.pid) - before) / passed * 100
    trips = sorted(results.get(timeout=60))
    agent.join()
    return share, trips[len(trips) // 2], trips[int(len(trips) * 0.999)], trips[-1]


def scene_rows(options, agents):
    # Other programs use this machine as well: the programs that are compared take turns.
    order = [0, 1] * options.rounds + list(range(2, len(SCENES)))
    server = start_cpprund(options.build, siege.first_in_line)
    load = os.path.join(options.build, "tests/bench/link_load")
    idle = int(len(order) * (options.seconds + 3) + 10)
    words = [load, server.port, server.pid, agents, 0, idle]
    crowd = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL)
    results = {}
    try:
        reader = all_there(server.port, agents)
        for turn, index in enumerate(order):
            played = play(server, reader, turn, SCENES[index], options.seconds)
            results.setdefault(SCENES[index][0], []).append(played)
        if json.loads(reader.get(JOB))["progress"]["workers"] < agents:
            raise RuntimeError("the agents have not reported what their workers do")
    finally:
        crowd.kill()
        crowd.wait()
        server.end()
    for name, played in results.items():
        shares, middles, rares, longest = zip(*played)
        print(f"| {agents:,} | {name} | {statistics.median(shares):.2f} % | "
              f"{statistics.median(middles):.2f} | {max(rares):.1f} | {max(longest):.1f} |",
              flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", help="directory of a release build")
    parser.add_argument("--seconds", type=float, default=8, help="of each row")
    parser.add_argument("--rounds", type=int, default=3, help="of no reader and a scrape a second")
    parser.add_argument("--agents", type=int, nargs="*", default=[1000, 10_000])
    options = parser.parse_args()
    print()
    print("| agents | who looks | cpprund's CPU, of one core | a heartbeat's answer: median, ms | "
          "99.9 %, ms | longest, ms |")
    print("| --- | --- | --- | --- | --- | --- |")
    for agents in options.agents:
        scene_rows(options, agents)


if __name__ == "__main__":
    main()
