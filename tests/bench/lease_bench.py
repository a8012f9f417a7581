# SPDX-License-Identifier: BSD-3-Clause
"""Whether leases hold on a machine under load: jobs of two nodes beside stress-ng, three for each
length of a lease, on one processor. Counts the leases that were nearly missed, and what happened
though nothing was wrong with any node. Prints the table of docs/performance.md only."""

import argparse
import collections
import contextlib
import json
import os
import shutil
import signal
import select
import socket
import subprocess
import sys
import tempfile

LEASES = (0.3, 1.0, 3.0)
JOBS = 3
# The output of a job that nothing disturbs.
QUIET = {"job_started", "node_joined", "round_sealed", "worker_started"}


def phases(memory_mib):
    return {
        "50 processes that compute": ["--cpu", "50"],
        "8 that use more memory than there is": ["--vm", "8", "--vm-bytes", f"{memory_mib}M",
                                                 "--vm-keep"],
        "6 that write to the disk": ["--hdd", "4", "--hdd-bytes", "256M", "--iomix", "2"],
        "28 of all three kinds": ["--cpu", "20", "--vm", "6", "--vm-bytes", f"{memory_mib}M",
                                  "--hdd", "2", "--hdd-bytes", "128M"],
    }


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def memory_group(limit_mib):
    """Limits the memory of this process and its children, with swap beyond it. Yields whether
    it could."""
    root = "/sys/fs/cgroup/memory"
    directory = f"{root}/cpprun-lease-bench-{os.getpid()}"
    try:
        os.mkdir(directory)
        for name, value in (("memory.limit_in_bytes", f"{limit_mib}M"),
                            ("cgroup.procs", str(os.getpid()))):
            with open(f"{directory}/{name}", "w", encoding="ascii") as file:
                file.write(value)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        with open(f"{root}/cgroup.procs", "w", encoding="ascii") as file:
            file.write(str(os.getpid()))
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def start_jobs(cpprun, directory, user):
    jobs = []
    for lease in LEASES:
        for number in range(JOBS):
            port = free_port()
            for node in range(2):
                name = os.path.join(directory, f"{lease}.{number}.{node}")
                words = [cpprun, "--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1",
                         "--master-addr=127.0.0.1", f"--master-port={port}", "--max-restarts=100",
                         "--rdzv-conf",
                         f"keep_alive_interval={lease / 3:.3f},keep_alive_max_attempt=3",
                         "--events", f"{name}.events", "--no-python", "sleep", "3600"]
                with open(f"{name}.log", "wb") as log:
                    jobs.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log,
                                                 stderr=log, **user))
    return jobs


def alarms(directory):
    """For each lease: how often it was nearly missed, and everything else that is not quiet."""
    near, lost = collections.Counter(), collections.Counter()
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".events"):
            continue
        lease = float(name.rsplit(".", 3)[0])
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            for line in file:
                event = json.loads(line)["event"] if line.endswith("\n") else "job_started"
                if event == "lease_nearly_missed":
                    near[lease] += 1
                elif event not in QUIET:
                    lost[lease] += 1
    return near, lost


def locked_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        values = dict(line.split(":", 1) for line in file)
    return [int(values[name].split()[0]) for name in ("VmLck", "VmRSS")]


def wait_until_they_run(directory, jobs):
    """Until the events of every job say that its workers run."""
    names = [f"{lease}.{number}.{node}.events" for lease in LEASES for number in range(JOBS)
             for node in range(2)]
    while True:
        texts = []
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    texts.append(file.read())
        if len(texts) == len(names) and all("worker_started" in text for text in texts):
            return
        for job in jobs:
            assert job.poll() is None, f"{job.args} has ended"
        select.select([], [], [], 0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=int, default=30, help="for each of the four loads")
    parser.add_argument("--memory-mib", type=int, default=1200, help="that all of it may use")
    parser.add_argument("--nobody", action="store_true", help="the jobs run without any privilege")
    options = parser.parse_args()
    if not shutil.which("stress-ng"):
        print("note: no stress-ng here (apt-get install stress-ng)")
        return 0
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    user = {"user": 65534, "group": 65534, "extra_groups": []} if options.nobody else {}
    with tempfile.TemporaryDirectory() as directory, memory_group(options.memory_mib) as limited:
        os.chmod(directory, 0o777)
        if not limited:
            print("note: no memory group can be made here: the memory is the machine's\n")
        cpprun = shutil.copy(os.path.join(options.build, "launcher", "cpprun"), directory)
        jobs = start_jobs(cpprun, directory, user)
        wait_until_they_run(directory, jobs)
        locked, resident = locked_kib(jobs[0].pid)
        print(f"{len(LEASES) * JOBS} jobs of two nodes on one processor; each cpprun has "
              f"{resident} KiB resident, {locked} of them locked\n")
        print(f"| beside, for {options.seconds} s each | " +
              " | ".join(f"lease {lease:g} s" for lease in LEASES) + " |")
        print("| --- |" + " --- |" * len(LEASES))
        before = (collections.Counter(), collections.Counter())
        for name, words in phases(2 * options.memory_mib * 4 // 5).items():
            subprocess.run(["stress-ng", *words, "--timeout", f"{options.seconds}s",
                            "--temp-path", directory], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False)
            near, lost = alarms(directory)
            cells = [f"{near[lease] - before[0][lease]} nearly missed, "
                     f"{lost[lease] - before[1][lease]} alarms" for lease in LEASES]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
            before = near, lost
        gone = [job.pid for job in jobs if job.poll() is not None]
        for job in jobs:
            job.send_signal(signal.SIGTERM)
        for job in jobs:
            job.wait()
        print(f"\n{len(gone)} of {len(jobs)} cppruns ended by themselves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
