#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files of docs/operating/ for operators, against a real Prometheus and a real job:

    prometheus_test.py CPPRUN CPPRUND SOURCE_DIRECTORY

The alert rules are checked and played with series of ours. Then Prometheus scrapes a job of two
nodes with two workers each, one of which fails once, two cpprunds with etcd, of which one leads,
and one that keeps its jobs in a directory; every query of the dashboard and every rule is asked
for there. Skipped, with the reason, without Debian's packages `prometheus` and `etcd-server`;
CPPRUN_TEST_INSTALL=1 has them installed. Only the standard library.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "worker"))
from ranks import free_port

CPPRUN, CPPRUND, SOURCE = sys.argv[1:4]
RULES = os.path.join(SOURCE, "docs/operating/alerts.yml")
DASHBOARD = os.path.join(SOURCE, "docs/operating/dashboard.json")
API_PAGE = os.path.join(SOURCE, "docs/http-api.md")
USAGE = os.path.join(SOURCE, "docs/usage.md")
SECONDS_MAX = 120
# Nobody else has led, and of a job that runs there is no exit code.
NOT_HERE = {"cpprun_leader_silence_seconds", "cpprun_job_exit_code"}

# Behind the class Heartbeat of docs/usage.md: beats, saves now and then; rank 1 fails once.
TRAINING = """
heartbeat, again = Heartbeat(), os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
for step in range(1, 1_000_000):
    heartbeat.beat(step, 256 * step)
    if step % 10 == 0:
        heartbeat.saved(step)
    if step == 100 and os.environ["RANK"] == "1" and not again:
        raise RuntimeError("this once")
    time.sleep(0.01)
"""


def install():
    """What of Prometheus and etcd is not here; nothing where all is."""
    def missing():
        return [name for name in ("promtool", "prometheus", "etcd") if not shutil.which(name)]
    if missing() and os.environ.get("CPPRUN_TEST_INSTALL") == "1":
        words = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", "prometheus",
                 "etcd-server"]
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
        subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, check=False, timeout=200)
    if not missing():
        return None
    return (f"no {' and no '.join(missing())} here (Debian's prometheus and etcd-server; "
            "CPPRUN_TEST_INSTALL=1 has them installed)")


NONE_HERE = install()


def selectors_in(expression):
    return set(re.findall(r"cpprun_\w+(?:\{[^}]*\})?", expression))


def dashboard_queries(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def with_values(query):
    """As Grafana fills its variables in when all jobs are chosen."""
    for name, value in (("$__rate_interval_ms", "10000"), ("$__rate_interval", "10s"),
                        ("$run_id", ".+")):
        query = query.replace(name, value)
    return query


def documented_metrics():
    with open(API_PAGE) as page:
        rows = re.findall(r"^\| `(cpprun_\w+)` \| (\w+) \|", page.read(), re.MULTILINE)
    return dict(rows)


class Job:
    """Two nodes of two workers, which send heartbeats; ended by their pids."""

    def __init__(self, directory):
        with open(USAGE) as page:
            heartbeat = re.search(r"```python\n(import mmap.*?)```", page.read(), re.DOTALL)[1]
        script = os.path.join(directory, "train.py")
        with open(script, "w") as file:
            file.write(heartbeat + TRAINING)
        self.port = free_port()
        self.output = open(os.path.join(directory, "job.log"), "w+")
        environment = dict(os.environ, TMPDIR=directory)
        words = [CPPRUN, "--nnodes=2", "--nproc-per-node=2", "--rdzv-id=train", "--max-restarts=3",
                 "--shutdown-timeout=1", "--master-addr=127.0.0.1", f"--master-port={self.port}"]
        self.nodes = [
            subprocess.Popen(words + [f"--node-rank={rank}", "--no-python", sys.executable, script],
                             stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
                             env=environment)
            for rank in range(2)
        ]

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def end(self):
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.wait(timeout=60)
        self.output.close()


class Daemons:
    """Two cpprunds with etcd, of which one leads; and one that keeps its jobs in a directory."""

    def __init__(self, directory):
        self.ports = [free_port(), free_port(), free_port()]
        self.output = open(os.path.join(directory, "daemons.log"), "w+")
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.etcd = subprocess.Popen(
            ["etcd", f"--data-dir={directory}/etcd", f"--listen-client-urls={client}",
             f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
             f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"],
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)
        member = [f"--etcd={client}"]
        self.daemons = []
        for port, words in zip(self.ports, [member, member, [f"--state={directory}/state"]]):
            self.daemons.append(subprocess.Popen(
                [CPPRUND, "--host=127.0.0.1", f"--port={port}", f"--name=at-{port}", "--no-secret",
                 *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.output, text=True,
                env=dict(os.environ, TMPDIR=directory)))
            self.daemons[-1].stdout.readline()  # it listens

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.communicate(timeout=60)
        self.etcd.kill()
        self.etcd.wait(timeout=60)
        self.output.close()


class Prometheus:
    """On loopback alone, with the rules; it scrapes those ports each second, by job."""

    def __init__(self, directory, jobs):
        self.port = free_port()
        config = os.path.join(directory, "prometheus.json")  # JSON is YAML
        with open(config, "w") as file:
            json.dump({
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s",
                           "evaluation_interval": "1s"},
                "rule_files": [RULES],
                "scrape_configs": [{"job_name": job, "static_configs": [
                    {"targets": [f"127.0.0.1:{port}" for port in ports]}]}
                    for job, ports in jobs.items()],
            }, file)
        subprocess.run(["promtool", "check", "config", config], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        self.log = open(os.path.join(directory, "prometheus.log"), "w+")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory}/data",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def ask(self, path, **parameters):
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        if parameters:
            address += "?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                raise
            raise AssertionError(f"{parameters or path}: {error.read().decode()}") from None

    def series(self, query):
        return self.ask("query", query=query)["result"]

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


def until(shows, what):
    """Polls a few times a second until the condition is true; fails after a timeout."""
    deadline = time.monotonic() + SECONDS_MAX
    pause = threading.Event()
    why = None
    while time.monotonic() < deadline:
        try:
            if result := shows():
                return result
        except (OSError, KeyError) as error:
            why = error
        pause.wait(0.2)
    raise AssertionError(f"within {SECONDS_MAX} s there was never {what} ({why})")


@unittest.skipIf(NONE_HERE, NONE_HERE)
class Rules(unittest.TestCase):
    def promtool(self, *words):
        ended = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return ended.stdout

    def test_rules_are_valid(self):
        self.assertIn("SUCCESS", self.promtool("check", "rules", RULES))

    def test_every_alert_fires_for_one_job_and_not_for_another(self):
        played = os.path.join(SOURCE, "tests/operating/alerts_test.yml")
        self.promtool("test", "rules", played)
        with open(RULES) as rules, open(played) as file:
            names = set(re.findall(r"- alert: (\w+)", rules.read()))
            self.assertGreater(len(names), 5)
            self.assertEqual(names, set(re.findall(r'alertname="(\w+)"', file.read())))


class Pages(unittest.TestCase):
    """Tests that need no Prometheus."""

    def test_every_alert_has_an_instruction_and_a_section_of_its_own(self):
        with open(RULES) as rules, open(os.path.join(SOURCE, "docs/operating/README.md")) as page:
            text = rules.read()
            sections = re.findall(r"^### (\w+)$", page.read(), re.MULTILINE)
        names = re.findall(r"- alert: (\w+)", text)
        self.assertEqual(sections, names)
        self.assertEqual(text.count("action: "), len(names))
        for name in names:
            self.assertIn(f'page: "docs/operating/README.md#{name.lower()}"', text)

    def test_the_dashboard_is_valid_for_grafana(self):
        with open(DASHBOARD) as file:
            dashboard = json.load(file)
        self.assertGreaterEqual(dashboard["schemaVersion"], 39)
        variables = {each["name"]: each["type"] for each in dashboard["templating"]["list"]}
        self.assertEqual(variables, {"datasource": "datasource", "run_id": "query"})
        ids, taken = set(), set()
        for panel in dashboard["panels"]:
            self.assertNotIn(panel["id"], ids)
            ids.add(panel["id"])
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            for place in [(x, y) for x in range(at["x"], at["x"] + at["w"])
                          for y in range(at["y"], at["y"] + at["h"])]:
                self.assertNotIn(place, taken, panel["title"])
                taken.add(place)
            for one in [panel] * (panel["type"] != "row") + panel.get("targets", []):
                self.assertEqual(one["datasource"]["uid"], "${datasource}", panel["title"])

    def test_all_queried_metrics_exist(self):
        known = documented_metrics()
        with open(DASHBOARD) as file, open(RULES) as rules:
            text = file.read() + "".join(re.findall(r"expr: [^\n]*|^ {10}.*", rules.read(), re.M))
        asked = set(re.findall(r"cpprun_\w+", text))
        self.assertGreater(len(asked), 10)
        self.assertEqual(asked - set(known), set())


@unittest.skipIf(NONE_HERE, NONE_HERE)
class Scraped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="cpprun_prometheus_")
        cls.addClassCleanup(cls.directory.cleanup)
        cls.job = Job(cls.directory.name)
        cls.addClassCleanup(cls.job.end)
        cls.daemons = Daemons(cls.directory.name)
        cls.addClassCleanup(cls.daemons.end)
        *pair, alone = cls.daemons.ports
        cls.prometheus = Prometheus(cls.directory.name,
                                    {"cpprund": [cls.job.port, *pair], "alone": [alone]})
        cls.addClassCleanup(cls.prometheus.end)
        # After the failure, and when statistics of the second round have arrived more than once.
        until(lambda: cls.prometheus.series('cpprun_restarts_total{run_id="train"} == 1'),
              "a restart")
        until(lambda: cls.prometheus.series("changes(cpprun_steps_per_second_min[20s]) > 1"),
              "steps per second")
        until(lambda: cls.prometheus.series("cpprun_workers_beating == 4"), "all heartbeats")
        until(lambda: cls.prometheus.series('cpprun_standbys{state="in_sync"} == 1'), "a standby")

    def test_the_scraped_metrics_are_those_of_the_manual(self):
        types = re.findall(r"^# TYPE (\w+) (\w+)$", self.job.metrics(), re.MULTILINE)
        self.assertEqual(dict(types), documented_metrics())
        names = set(self.prometheus.ask("label/__name__/values"))
        self.assertEqual({name for name in names if name.startswith("cpprun_")},
                         set(documented_metrics()) - NOT_HERE)
        self.assertEqual(self.prometheus.ask("label/run_id/values"), ["train"])

    def test_every_query_of_the_dashboard_has_data(self):
        with open(DASHBOARD) as file:
            queries = list(dashboard_queries(json.load(file)))
        self.assertGreater(len(queries), 15)
        for title, query in queries:
            with self.subTest(panel=title, query=query):
                until(lambda: self.prometheus.series(with_values(query)), f"data of {query}")

    def test_every_alert_is_evaluated_and_none_fires(self):
        def evaluated():
            rules = self.prometheus.ask("rules")["groups"][0]["rules"]
            return all(rule["health"] == "ok" for rule in rules) and rules
        rules = until(evaluated, "rules in health")
        self.assertGreater(len(rules), 5)
        for rule in rules:
            with self.subTest(alert=rule["name"]):
                # A busy machine may make one pending for a moment.
                self.assertNotEqual(rule["state"], "firing", rule)
                self.prometheus.series(rule["query"])
                for selector in selectors_in(rule["query"]) - NOT_HERE:
                    self.assertTrue(self.prometheus.series(selector), selector)

    def test_the_restart_is_visible_with_its_cause(self):
        (series,) = self.prometheus.series("cpprun_restarts_total")
        self.assertEqual(series["value"][1], "1")
        self.assertIn("cause", series["metric"])
        (left,) = self.prometheus.series("cpprun_restarts_left")
        self.assertEqual(left["value"][1], "2")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
