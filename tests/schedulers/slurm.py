# SPDX-License-Identifier: BSD-3-Clause
"""A real Slurm: one controller and a slurmd on each of its hosts, which are namespaces."""

import os
import shutil
import subprocess
import tempfile
import time

from hosts import Hosts, run

PROGRAMS = ["slurmctld", "slurmd", "srun", "sbatch", "scontrol", "munged"]
SECONDS_MAX = 60

CONF = """ClusterName=cpprun
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
SlurmdTimeout=5
MessageTimeout=2
TCPTimeout=1
KillWait={kill_wait}
JobRequeue=1
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
{nodes}
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    def __init__(self, nodes=4, kill_wait=5, proctrack="linuxproc"):
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.hosts = Hosts(["head", *self.nodes])
        self.directory = tempfile.mkdtemp(prefix="cpprun-slurm-")
        os.chmod(self.directory, 0o755)
        os.mkdir(f"{self.directory}/state")
        lines = [f"NodeName={name} NodeAddr={self.hosts.address(name)} CPUs=4 CoresPerSocket=4 "
                 "RealMemory=1000" for name in self.nodes]
        with open(self.path("slurm.conf"), "w", encoding="utf-8") as file:
            file.write(CONF.format(head=self.hosts.address("head"), directory=self.directory,
                                   kill_wait=kill_wait, proctrack=proctrack,
                                   nodes="\n".join(lines)))
        self.environment = dict(os.environ, SLURM_CONF=self.path("slurm.conf"),
                                TMPDIR=self.directory)  # a lost host's files are removed with it
        self.daemons = []
        try:
            self._start_all()
        except BaseException:
            self.remove()
            raise

    def path(self, name):
        return os.path.join(self.directory, name)

    def _start_all(self):
        self._start_munge()
        self._start("head", "slurmctld", "-D", "-i", "-c")
        for name in self.nodes:
            os.mkdir(self.path(f"spool-{name}"))
            self._start(name, "slurmd", "-D", "-N", name)
        self.wait_until(lambda: self.idle() == len(self.nodes), "all nodes are idle")

    def _start_munge(self):
        with open(self.path("munge.key"), "wb") as file:
            file.write(os.urandom(128))
        os.chmod(self.path("munge.key"), 0o600)
        self.daemons.append(subprocess.Popen(
            ["munged", "--foreground", "--force", f"--key-file={self.path('munge.key')}",
             f"--socket={self.path('munge.socket')}", f"--pid-file={self.path('munge.pid')}",
             f"--log-file={self.path('munge.log')}", f"--seed-file={self.path('munge.seed')}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        self.wait_until(lambda: os.path.exists(self.path("munge.socket")), "munged is there")

    def _start(self, host, *words):
        self.daemons.append(self.hosts.start(host, *words, env=self.environment,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def wait_until(self, holds, what, seconds=SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.05)

    def power_on(self, name):
        """Restarts a host that was lost."""
        self.hosts.inside(self.hosts.mark + name, "ip", "link", "set", "eth0", "up")
        self._start(name, "slurmd", "-D", "-N", name)
        self.wait_until(lambda: self.idle() == len(self.nodes), f"{name} is back")

    def idle(self):
        said = self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip()
        return int(said) if said.isdigit() else 0

    def start(self, *words, **options):
        """A command on the login host."""
        return self.hosts.start("head", *words, env=self.environment, cwd=self.directory, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)

    def run(self, *words):
        started = self.start(*words)
        try:
            output = started.communicate(timeout=SECONDS_MAX)[0]
        except subprocess.TimeoutExpired:
            started.kill()
            output = started.communicate()[0] + f"\n(no end of {words[0]})"
        return subprocess.CompletedProcess(words, started.returncode, output)

    def script(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.path(name), 0o755)
        return self.path(name)

    def text(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def remove(self):
        self.run("scancel", "--full", "-s", "KILL", "-u", "root")
        for daemon in reversed(self.daemons):
            daemon.terminate()
        self.hosts.remove()
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
