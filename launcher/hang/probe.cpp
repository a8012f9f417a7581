// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/probe.h"

#include <fmt/format.h>

#include "proto/worker_contract.h"

namespace cpprun::hang {

// It must run in every Python from 3.9 on, and fail silently in older ones, because all children of
// a worker run it, too.
//
// In a warm worker (workers/warm_parent.h) it is run under another name, when the user's
// sitecustomize has long been imported, and maybe PyTorch.
//
// The server object is never freed: its destructor joins a thread, which does not exist in a
// forked child. Its constructor writes a line to stderr, whatever the log level. At exit only the
// path is removed: while the interpreter shuts down, the server must not run Python code. A request
// that waits for the GIL then would abort the process, so requests under way, those for which
// the kernel lists a connection, get a second. None can begin after the path was removed.
//
// A child that imports torch.distributed before the worker does serves until then.
const std::string_view probe_source = R"PY(# Written by cpprun: serves the stacks of this worker.
import os
import sys


def _is_descendant(pid):
    try:
        while pid > 1 and pid != os.getpid():
            with open("/proc/%d/stat" % pid) as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return True  # it has just ended
    return pid == os.getpid()


def _serve(path):
    import atexit
    import ctypes
    import socket
    import struct
    import time

    from torch._C._distributed_c10d import _WorkerServer

    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if not _is_descendant(struct.unpack("3i", peer)[0]):
            return  # an ancestor or a sibling serves
        os.unlink(path)
    except FileNotFoundError:
        pass
    except ConnectionRefusedError:
        os.unlink(path)  # of a process that has ended
    finally:
        client.close()
    stderr = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        server = _WorkerServer(path, -1)
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(server))
    os.chmod(path, 0o600)
    owner = os.getpid()
    inode = os.stat(path).st_ino

    def is_connected(line):
        words = line.rstrip(b"\n").split(None, 7)  # the path is the last one, and may have spaces
        return words[5:6] in ([b"02"], [b"03"]) and words[7:] == [os.fsencode(path)]

    def remove():
        try:
            if os.getpid() == owner and os.stat(path).st_ino == inode:
                os.unlink(path)
                for _ in range(20):
                    with open("/proc/net/unix", "rb") as sockets:
                        if not any(map(is_connected, sockets)):
                            break
                    time.sleep(0.05)
        except Exception:
            pass

    atexit.register(remove)


class _Finder(object):
    def __init__(self, path):
        self.path = path

    def find_spec(self, name, path=None, target=None):
        if name != "torch.distributed":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                try:
                    self.follow(spec.loader)
                except Exception:
                    pass
                return spec
        return None

    def follow(self, loader):
        run = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            run(module)
            try:
                _serve(self.path)
            except Exception:
                pass

        loader.exec_module = exec_module


try:
    import faulthandler

    faulthandler.register(60, file=2)
except Exception:
    pass
try:
    if __name__ == "sitecustomize":
        sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    if os.environ.get("CPPRUN_PROBE_SOCKET"):
        if "torch.distributed" in sys.modules:
            _serve(os.environ["CPPRUN_PROBE_SOCKET"])
        else:
            sys.meta_path.insert(0, _Finder(os.environ["CPPRUN_PROBE_SOCKET"]))
except Exception:
    pass
if __name__ == "sitecustomize":
    # The user's. If there is none, this fails as if this file did not exist.
    del sys.modules["sitecustomize"]
    import sitecustomize
)PY";

Result<std::string> probe_socket(const std::string& directory, LocalRank local_rank) {
  constexpr std::size_t path_bytes_max = 107;  // sockaddr_un
  std::string path = fmt::format("{}/w{}", directory, local_rank.value);
  if (path.size() <= path_bytes_max) return path;
  return failure(
      fmt::format("the path of its socket, \"{}\", has {} bytes, more than the {} that "
                  "a Unix socket may have",
                  path, path.size(), path_bytes_max));
}

void add_probe(Environment& variables, const Environment& inherited, const std::string& directory,
               const std::string& socket) {
  constexpr std::string_view python_path = "PYTHONPATH";
  const std::string* users = find_variable(variables, python_path);
  if (users == nullptr) users = find_variable(inherited, python_path);
  // An empty entry would mean the working directory.
  const bool has_users = users != nullptr && !users->empty();
  variables[std::string(python_path)] = has_users ? directory + ':' + *users : directory;
  variables[std::string(contract::probe_socket)] = socket;
}

}  // namespace cpprun::hang
