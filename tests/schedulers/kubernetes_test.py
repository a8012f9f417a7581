#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/kubernetes.md, as far as they work without a cluster:

    kubernetes_test.py CPPRUN

The manifests are checked against the schemas of Kubernetes (PyPI's kubernetes-validate), and the
Indexed Job's command runs in four "pods": network namespaces with a pod's variables, its own line
in /etc/hosts, and a name server in which the headless Service is all of them. Skipped, with the
reason, if one of these is unavailable."""

import atexit
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from hosts import Hosts, why_not

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
from scenes import read_page

CPPRUN = sys.argv[1]
PAGE = os.path.join(HERE, "..", "..", "docs", "kubernetes.md")
FILES = read_page(PAGE)[1]
SCHEMAS = "1.37.0"
SECONDS_MAX = 60
DOMAIN = "default.svc.cluster.local"
NAME_SERVER = "10.77.0.100"



def need_schemas():
    """If they are requested and missing, they are installed for this run only."""
    if importlib.util.find_spec("kubernetes_validate"):
        return
    if os.environ.get("CPPRUN_TEST_INSTALL") in ("1", "schedulers"):
        directory = tempfile.mkdtemp(prefix="cpprun-schemas-")
        atexit.register(shutil.rmtree, directory)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", directory,
                        "kubernetes-validate"], stdin=subprocess.DEVNULL, check=False, timeout=300,
                       env=dict(os.environ, PIP_BREAK_SYSTEM_PACKAGES="1"))  # of its own directory
        sys.path.append(directory)


need_schemas()
try:
    import kubernetes_validate
    import yaml
    NO_SCHEMAS = None
except ImportError as missing:
    NO_SCHEMAS = f"{missing} (PyPI's kubernetes-validate; ./dev test --schedulers fetches it)"
NO_PODS = why_not()


@unittest.skipIf(NO_SCHEMAS, NO_SCHEMAS)
class ManifestTest(unittest.TestCase):
    def validate(self, manifest):
        kubernetes_validate.validate(manifest, SCHEMAS, strict=True)

    def test_each_manifest_is_valid(self):
        kinds = []
        for name, text in FILES.items():
            for manifest in yaml.safe_load_all(text):
                kinds.append(manifest["kind"])
                with self.subTest(file=name, kind=manifest["kind"]):
                    if manifest["kind"] != "JobSet":
                        self.validate(manifest)
                        continue
                    # A resource of its own, made of Jobs.
                    for part in manifest["spec"]["replicatedJobs"]:
                        self.validate({"apiVersion": "batch/v1", "kind": "Job",
                                       "metadata": {"name": part["name"]}, **part["template"]})
        self.assertEqual(sorted(kinds), ["Job", "JobSet", "Pod", "Service"])

    def test_an_invalid_manifest_is_noticed(self):
        service, job = yaml.safe_load_all(FILES["indexed-job.yaml"])
        job["spec"]["completionsMode"] = job["spec"].pop("completionMode")
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.validate(job)
        service["spec"]["clusterIP"] = 7
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.validate(service)


@unittest.skipIf(NO_PODS, NO_PODS)
class PodsTest(unittest.TestCase):
    """Each name is a sentence about the pods of one Indexed Job."""

    def setUp(self):
        self.pods = [f"train-{index}" for index in range(4)]
        self.hosts = Hosts(self.pods)
        self.addCleanup(self.hosts.remove)
        self.directory = tempfile.mkdtemp(prefix="cpprun-pods-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.names = os.path.join(self.directory, "names.json")
        self.addresses = {pod: self.hosts.address(pod) for pod in self.pods}
        self.publish()
        with open(f"{self.hosts.etc}/resolv.conf", "w", encoding="utf-8") as file:
            file.write(f"nameserver {NAME_SERVER}\nsearch {DOMAIN}\noptions timeout:1 attempts:2\n")
        self.hosts.inside(self.hosts.switch, "ip", "address", "add", f"{NAME_SERVER}/24", "dev",
                          "br0")
        server = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.hosts.switch}", sys.executable,
             os.path.join(HERE, "name_server.py"), NAME_SERVER, self.names],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, server)
        self.assertEqual(server.stdout.readline(), "ready\n")
        # The image's program, and its command.
        self.write("train", '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE at $MASTER_ADDR"\n'
                   "test ! -e again || exec sleep 1000\n")
        words = re.search(r"command: \[(cpprun, .*)\]", FILES["indexed-job.yaml"])[1].split(", ")
        self.command = [CPPRUN, *words[1:]]

    def end(self, process):
        process.kill()
        process.communicate()

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def publish(self):
        """The cluster's DNS: each pod by its name, and the Service as all of them."""
        names = {f"{pod}.train.{DOMAIN}": [address] for pod, address in self.addresses.items()}
        names[f"train.{DOMAIN}"] = list(self.addresses.values())
        for pod, address in self.addresses.items():
            self.hosts.hosts_file[pod] = self.write(
                f"hosts-{pod}", f"127.0.0.1 localhost\n{address}\t{pod}.train.{DOMAIN}\t{pod}\n")
        self.write("names.new", json.dumps(names))
        os.rename(os.path.join(self.directory, "names.new"), self.names)

    def start(self, pod, *more):
        environment = {"PATH": os.environ["PATH"], "HOSTNAME": pod, "HOME": "/root",
                       "KUBERNETES_SERVICE_HOST": "10.96.0.1",
                       "JOB_COMPLETION_INDEX": pod.rsplit("-", 1)[1]}
        started = self.hosts.start(pod, *self.command[:1], *more, *self.command[1:], text=True,
                                   env=environment, cwd=self.directory, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(self.end, started)
        return started

    def outcome(self, started):
        try:
            said = started.communicate(timeout=SECONDS_MAX)[0]
        except subprocess.TimeoutExpired:
            started.terminate()
            said = started.communicate()[0] + "\n(no end)"
        return started.returncode, said

    def test_the_command_of_the_page_needs_no_rank_and_no_address(self):
        # Pods come in any order.
        started = [self.start(pod) for pod in reversed(self.pods)]
        outcomes = [self.outcome(each) for each in started]
        said = "".join(text for _, text in outcomes)
        self.assertEqual([code for code, _ in outcomes], [0, 0, 0, 0], said)
        ranks = re.findall(rf"^rank (\d) of 4 at train-0\.train\.{re.escape(DOMAIN)}$", said, re.M)
        self.assertEqual(sorted(ranks), ["0", "1", "2", "3"], said)
        self.assertIn("settings from Kubernetes: node rank 0 (JOB_COMPLETION_INDEX), master "
                      f"train-0.train.{DOMAIN}:29500 (/etc/hosts)", said)

    def test_the_name_of_the_headless_service_resolves_to_all_pods_and_they_meet(self):
        started = [self.start(pod, "--master-addr=train") for pod in self.pods]
        outcomes = [self.outcome(each) for each in started]
        said = "".join(text for _, text in outcomes)
        self.assertEqual([code for code, _ in outcomes], [0, 0, 0, 0], said)
        self.assertEqual(said.count(" of 4 at "), 4, said)

    def test_a_pod_that_comes_back_has_another_address_and_takes_its_old_seat(self):
        self.write("again", "")
        started = {pod: self.start(pod) for pod in self.pods}
        said = ""
        for line in started["train-0"].stdout:
            said += line
            if line.startswith("rank "):
                break
        self.hosts.power_off("train-2")
        self.outcome(started["train-2"])
        self.addresses["train-2"] = "10.77.0.50"
        space = self.hosts.mark + "train-2"
        self.hosts.inside(space, "ip", "address", "flush", "dev", "eth0")
        self.hosts.inside(space, "ip", "address", "add", "10.77.0.50/24", "dev", "eth0")
        self.hosts.inside(space, "ip", "link", "set", "eth0", "up")
        os.remove(os.path.join(self.directory, "again"))
        self.publish()
        started["train-2"] = self.start("train-2")
        outcomes = {pod: self.outcome(each) for pod, each in started.items()}
        text = said + "".join(words for _, words in outcomes.values())
        self.assertEqual({code for code, _ in outcomes.values()}, {0}, text)
        self.assertIn("rank 2 of 4", outcomes["train-2"][1])
        self.assertIn("node 2 on train-2 is lost", text)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # CTest's: the hosts are removed
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
