# SPDX-License-Identifier: BSD-3-Clause
"""Hosts for schedulers: network namespaces on a switch of their own, each with a name that the
others can look up. Root only. `remove` leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import tempfile
import time


def run(*words, check=True):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=check)


def why_not(*programs):
    """Why such hosts are unavailable, or nothing."""
    missing = [each for each in ("ip", "nsenter", "unshare", *programs) if not shutil.which(each)]
    if missing:
        return f"no {' and no '.join(missing)} here"
    if os.geteuid() != 0:
        return "network namespaces need root"
    # A chroot rejects the mounts of a namespace.
    tried = run("unshare", "--mount", "--net", "--uts", "true", check=False)
    if tried.returncode != 0:
        return f"network namespaces cannot be made here: {tried.stdout.strip()}"
    return None


class Hosts:
    """`names` are host names; addresses are 10.77.0.1 and so on, in their order."""

    def __init__(self, names):
        self.mark = f"cpprun-{os.getpid()}-"
        self.names = list(names)
        self.covered = {}  # a directory that looks empty on that host
        self.hosts_file = {}  # of hosts that have another /etc/hosts than the rest
        self.switch = self.mark + "switch"
        self.etc = tempfile.mkdtemp(prefix="cpprun-etc-")
        with open(f"{self.etc}/hosts", "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{self.address(each)} {each}\n" for each in self.names)
        with open(f"{self.etc}/resolv.conf", "w", encoding="utf-8"):
            pass  # no name server: there is only /etc/hosts
        run("ip", "netns", "add", self.switch)
        self.inside(self.switch, "ip", "link", "add", "br0", "type", "bridge")
        self.inside(self.switch, "ip", "link", "set", "br0", "up")
        for number, name in enumerate(self.names, 1):
            self._plug(number, name)

    def inside(self, space, *words, check=True):
        return run("ip", "netns", "exec", space, *words, check=check)

    def _plug(self, number, name):
        space, port = self.mark + name, f"port{number}"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", port,
            "netns", self.switch)
        self.inside(self.switch, "ip", "link", "set", port, "master", "br0", "up")
        self.inside(space, "ip", "link", "set", "lo", "up")
        self.inside(space, "ip", "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        self.inside(space, "ip", "link", "set", "eth0", "up")

    def address(self, name):
        return f"10.77.0.{self.names.index(name) + 1}"

    def words(self, name, *words):
        """The command that runs `words` on that host, under its name. Not by `ip netns exec`, which
        takes the control groups away."""
        return ["nsenter", f"--net=/run/netns/{self.mark}{name}", "unshare", "--mount", "--uts",
                "sh", "-c", 'hostname "$0" && mount --bind "$1/hosts" /etc/hosts && '
                'mount --bind "$1/resolv.conf" /etc/resolv.conf && '
                '{ test -z "$2" || mount -t tmpfs none "$2"; } && '
                '{ test -z "$3" || mount --bind "$3" /etc/hosts; } && shift 3 && exec "$@"', name,
                self.etc, self.covered.get(name, ""), self.hosts_file.get(name, ""), *words]

    def start(self, name, *words, **options):
        return subprocess.Popen(self.words(name, *words), stdin=subprocess.DEVNULL, **options)

    def pids(self, name):
        return [int(pid) for pid in run("ip", "netns", "pids", self.mark + name).stdout.split()]

    def power_off(self, name):
        """The cable first: a process that dies must not send a FIN."""
        self.inside(self.mark + name, "ip", "link", "set", "eth0", "down")
        self.end_all(name)

    def end_all(self, name):
        while pids := self.pids(name):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)  # until the kernel has removed them

    def remove(self):
        for name in self.names:
            self.end_all(name)
            run("ip", "netns", "del", self.mark + name, check=False)
        run("ip", "netns", "del", self.switch, check=False)
        shutil.rmtree(self.etc)
