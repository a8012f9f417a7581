# SPDX-License-Identifier: BSD-3-Clause
"""The state of running jobs, for programs. Each call runs `cpprunctl --json`, which this wheel has.

    for job in cpprun.client.jobs():
        print(job["job"], job["state"], cpprun.client.job(job["job"])["progress"])

`address`: HOST:PORT of a job on another machine. Without it, the jobs of this user on this machine.
docs/http-api.md describes the fields of jobs and nodes, docs/events.md those of events.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

from ._launch import find_program

__all__ = ["ClientError", "events", "job", "jobs", "nodes"]

_TIMEOUT_SECONDS = 60  # cpprunctl itself gives up after 5 s for each program that it asks


class ClientError(RuntimeError):
    """cpprunctl failed. `exit_code`: that of cpprunctl, or None if it could not run."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def jobs(*, address: str | None = None) -> list[dict[str, Any]]:
    """All jobs, without their nodes."""
    found: list[dict[str, Any]] = _run(["ls"], address)[0]["jobs"]
    return found


def job(name: str, *, address: str | None = None) -> dict[str, Any]:
    """One job, with its progress, its rounds, and its nodes in "members"."""
    found = _run(["status", "--", name], address)[0]
    _check_name(name, found)
    return found


def nodes(name: str, *, address: str | None = None) -> list[dict[str, Any]]:
    """The nodes of a job, each with its workers in "ranks"."""
    found: list[dict[str, Any]] = job(name, address=address)["members"]
    return found


def events(name: str, *, address: str | None = None) -> list[dict[str, Any]]:
    """The last events of a job, the oldest first."""
    found = _run(["events", "--", name], address)
    for each in found:
        _check_name(name, each)
    return found


def _check_name(name: str, found: dict[str, Any]) -> None:
    # cpprunctl takes the beginning of a name, too. An event about all jobs has an empty name.
    if found.get("job") not in (name, "", None):
        raise ClientError(f'unknown job "{name}"; known: "{found["job"]}"', 1)


def _run(words: list[str], address: str | None) -> list[dict[str, Any]]:
    """The lines of JSON that cpprunctl prints."""
    options = ["--json"] if address is None else ["--json", f"--address={address}"]
    try:
        ended = subprocess.run([find_program("cpprunctl"), words[0], *options, *words[1:]],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=_TIMEOUT_SECONDS)
        found = [json.loads(line) for line in ended.stdout.splitlines()]
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ClientError(str(error)) from error
    if ended.returncode != 0 or not found and words[0] != "events":
        message = ended.stderr.decode(errors="replace").replace("cpprunctl: error: ", "", 1)
        silent = found[0].get("silent", []) if found else []
        reasons = "\n".join(f"{each['at']}: {each['reason']}" for each in silent)
        unknown = f"cpprunctl {words[0]} failed with exit code {ended.returncode}"
        raise ClientError(message.strip() or reasons or unknown, ended.returncode)
    return found
