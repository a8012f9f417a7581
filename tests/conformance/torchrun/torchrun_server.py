# SPDX-License-Identifier: BSD-3-Clause
"""torchrun without the second and a half of imports each time: PyTorch is imported once, and every
launcher is a fork of that, which then runs torchrun's own main function.

    torchrun_server.py SOCKET

One connection is one launcher: it sends what to run in one line of JSON, receives the launcher's
pid, and receives its exit code when there is one.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import traceback
import warnings


def become_launcher(order):
    os.setsid()
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["env"])
    for stream, path in ((1, order["out"]), (2, order["err"])):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.closerange(3, 256)
    sys.argv = [order["module"], *order["words"]]
    code = 1
    try:
        warnings.simplefilter("ignore")
        sys.modules[order["module"]].main()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException:
        # What the interpreter does with an uncaught exception.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(connection):
    order = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        become_launcher(order)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    try:
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    except OSError:
        pass  # the client has stopped waiting
    os._exit(0)


def main():
    import torch.distributed.launch  # noqa: F401
    import torch.distributed.run  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen(64)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            serve(connection)
        connection.close()


class Launcher:
    """The client side: as much of subprocess.Popen as the suite uses."""

    def __init__(self, server, words, **order):
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(server)
        order.update(module=words[0], words=words[1:])
        self.connection.sendall(json.dumps(order).encode() + b"\n")
        self.answers = self.connection.makefile()
        self.pid = int(self.answers.readline())
        self.returncode = None

    def wait(self, seconds=None):
        if self.returncode is None:
            self.connection.settimeout(seconds)
            try:
                self.returncode = int(self.answers.readline())
            except TimeoutError as late:
                self.answers = self.connection.makefile()
                raise subprocess.TimeoutExpired("torchrun", seconds) from late
        return self.returncode

    def poll(self):
        try:
            return self.wait(0.001)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        self.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    main()
