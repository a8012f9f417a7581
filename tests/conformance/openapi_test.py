#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/openapi.json against a real cpprund, by a program of another project (schemathesis):

    openapi_test.py CPPRUND [CPPRUN]

Every operation is called with requests that the document allows and with some that it does not;
status, type and body of each answer have to match the document. With CPPRUN a job runs
meanwhile, and the operations on jobs use that one. The seed is fixed and the number
of requests limited. Skipped (exit code 77), with the reason, if schemathesis is unavailable:
CPPRUN_TEST_INSTALL=1 (or =openapi) installs it for this run alone."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "docs", "openapi.json")
SEED, EXAMPLES, SECONDS_MAX = "29", "15", 240
JOB = "shown"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def runner(directory):
    """The command of schemathesis, and its environment."""
    environment = dict(os.environ)
    if importlib.util.find_spec("schemathesis") is None:
        if os.environ.get("CPPRUN_TEST_INSTALL") not in ("1", "openapi"):
            skip("no schemathesis (PyPI); CPPRUN_TEST_INSTALL=openapi fetches it")
        packages = os.path.join(directory, "packages")
        installed = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", packages,
             "schemathesis>=4,<5"], stdin=subprocess.DEVNULL, check=False, timeout=300,
            env=dict(os.environ, PIP_BREAK_SYSTEM_PACKAGES="1"))  # of its own directory
        if installed.returncode != 0:
            skip("schemathesis cannot be installed")
        environment["PYTHONPATH"] = packages
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
    return command, environment


def main():
    daemon_path, agent_path = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    directory = tempfile.mkdtemp(prefix="cpprun-openapi-")
    children = []
    try:
        command, environment = runner(directory)
        daemon = subprocess.Popen([daemon_path, "--host=127.0.0.1", "--port=0",
                                   "--status-access=host", "--no-secret", "--quiet"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        children.append(daemon)
        port = daemon.stdout.readline().rsplit(":", 1)[1].strip()
        url = f"http://127.0.0.1:{port}"
        code = run(command, environment, url, directory, [], None)
        if agent_path:
            children.append(subprocess.Popen(
                [agent_path, "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}",
                 f"--rdzv-id={JOB}", "--nnodes=1", "--no-python", "sleep", "600"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            wait_for_job(url)
            code = code or run(command, environment, url, directory, ["--include-method=GET"], JOB)
        return code
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()
        shutil.rmtree(directory)


def wait_for_job(url):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{url}/api/v1/jobs") as answer:
            if any(job["job"] == JOB for job in json.load(answer)["jobs"]):
                return
        time.sleep(0.05)
    raise SystemExit(f"no job \"{JOB}\" within 30 s")


def run(command, environment, url, directory, more, job):
    settings = os.path.join(directory, "schemathesis.toml")
    with open(settings, "w", encoding="utf-8") as file:
        # 413 is for a body that is too long, whatever its content.
        file.write("[checks.negative_data_rejection]\nexpected-statuses = "
                   '[400, 401, 403, 404, 405, 406, 409, 413, 414, 415, 422, 431, "5xx"]\n')
        file.write("[parameters]\n" + (f'"path.id" = "{job}"\n' if job else ""))
    # Its stream continues until it is closed; other tests read it.
    return subprocess.run(
        command + [f"--config-file={settings}", "run", os.path.abspath(DOCUMENT), f"--url={url}",
                   f"--seed={SEED}", f"--max-examples={EXAMPLES}", "--generation-deterministic",
                   "--checks=all", "--exclude-path=/api/v1/events", "--request-timeout=10",
                   "--max-failures=20", "--no-color", "--warnings=off", *more],
        cwd=directory, env=environment, stdin=subprocess.DEVNULL, check=False,
        timeout=SECONDS_MAX).returncode


if __name__ == "__main__":
    sys.exit(main())
