// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/warm_parent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "proto/worker_contract.h"

namespace cpprun {

// Messages to cpprun: "ready" or "failed REASON" on the control socket; for a request, on a socket
// of its own, "pid N" or "no REASON" from the parent, and "ready", "failed STAGE ERRNO" or "no
// REASON" from the worker, which then waits for "go".
const std::string_view warm_parent_source =
    R"PY(# Written by cpprun (--warm): imports modules, computes nothing, is forked for each worker.
import sys

had_path = sys.path[:1] == [""]
if had_path:
    del sys.path[0]  # only installed modules are imported here

import builtins
import ctypes
import errno
import gc
import importlib
import importlib.machinery
import os
import pkgutil
import re
import runpy
import socket
import time
import types

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_PTRACER = 1, 15, 0x59616D61
libc = ctypes.CDLL(None, use_errno=True)


def prctl(option, value):
    libc.prctl(option, value if isinstance(value, bytes) else ctypes.c_ulong(value), 0, 0, 0)


def read(path):
    with open(path, "rb") as file:
        return file.read()


# What ps shows. A byte other than 0 at the end lets the kernel end it at the first 0.
def set_title(words):
    fields = read("/proc/self/stat").rpartition(b")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    room = end - begin - 2
    if begin and room > 0:
        title = b" ".join(words)[:room]
        ctypes.memmove(begin, title.ljust(room + 1, b"\0") + b".", room + 2)


# Why this worker cannot be forked; empty: it can.
def unfit(argv):
    if argv[2] == "-m":
        directory, what = os.getcwd(), argv[3]
    else:
        what = argv[2]
        directory = os.path.dirname(os.path.realpath(what))
        if not os.path.isfile(what) or what.endswith(".pyc") or pkgutil.get_importer(what):
            return "%s is not a plain Python file" % what
    for entry in os.listdir(directory or "."):
        name, ending = os.path.splitext(entry)
        path = os.path.join(directory, entry)
        module = sys.modules.get(name.split(".")[0])
        if module is None or name == "__main__":
            continue
        if ending == "" and not os.path.exists(os.path.join(path, "__init__.py")):
            continue
        origin = getattr(getattr(module, "__spec__", None), "origin", None) or ""
        hides = ending in ("", ".py", ".so") and origin not in ("built-in", "frozen")
        if hides and not origin.startswith(path):
            return "%s hides the module %s" % (path, module.__name__)
    return ""


def stamps():
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and os.path.isabs(path):
            try:
                status = os.stat(path)
                found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
            except OSError:
                found[path] = None
    return found


# Why no worker may be forked now; empty: it may.
def unsafe():
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return "%d threads run in the parent" % threads
    if re.search(rb" /dev/(nvidia|kfd|dri)", read("/proc/self/maps")):
        return "the parent uses a GPU"
    return ""


# A child of a child whose parent exits at once: its parent is then cpprun, which supervises it.
# Returns 0 in that process.
def fork_twice():
    ours, theirs = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            pid = os.fork()
        except OSError as error:
            pid = -error.errno
        if pid:
            os.write(theirs, b"%d" % pid)
            os._exit(0)
        os.close(ours)
        os.close(theirs)
        return 0
    os.close(theirs)
    os.waitpid(middle, 0)
    pid = int(os.read(ours, 16) or -errno.EAGAIN)
    os.close(ours)
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid


# Forks a process for each request; returns in that process, with its line to cpprun and the
# descriptors it was given.
def serve():
    checked = 0.0
    while True:
        kind, fds, _, _ = socket.recv_fds(control, 16, 4)
        if not kind:
            os._exit(0)  # cpprun has exited
        line = socket.socket(fileno=fds.pop(1))
        why = unsafe()
        if not why and time.monotonic() - checked > 1:
            checked = time.monotonic()
            why = "" if stamps() == loaded else "an installed package has changed"
        if why:
            line.send(b"no " + os.fsencode(why))
            os._exit(1)
        try:
            pid = fork_twice()
            if pid == 0:
                return line, fds
            line.send(b"pid %d" % pid)
        except OSError as error:
            try:
                line.send(b"no cannot fork: " + os.fsencode(error.strerror))
            except OSError:
                pass
        line.close()
        for fd in fds:
            os.close(fd)


# To cpprun, which may have given up on this worker, or exited.
def tell(text):
    try:
        line.send(text)
    except OSError:
        os._exit(127)


def is_wanted():
    try:
        return line.recv(16) == b"go"
    except OSError:
        return False


# What cpprun's own child does before it executes a program, in the same order.
def prepare(fds, out, err, cpus):
    stage = b"session"
    try:
        os.setsid()
        stage = b"processors"
        if cpus:
            os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(b",")])
        for stage, path, standard in ((b"stdout", out, 1), (b"stderr", err, 2)):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            fd = os.open(path, flags, 0o644) if path else fds.pop(0)
            os.dup2(fd, standard)
            os.close(fd)
    except OSError as error:
        tell(b"failed %s %d" % (stage, error.errno))
        os._exit(127)


# What differs between two processes that have just imported the same modules.
def refresh():
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.seed()
    if os.environ.get("CPPRUN_PROBE_SOCKET"):
        path = os.environ["PYTHONPATH"].partition(":")[0] + "/sitecustomize.py"
        exec(compile(read(path), path, "exec"), {"__name__": "cpprun_probe", "__file__": path})


def begin_main(argv):
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = argv
    directory = os.getcwd()
    sys.argv = ["-m"] + argv[4:] if argv[2] == "-m" else argv[2:]
    if argv[2] != "-m":
        main.__file__ = os.path.join(directory, argv[2])
        main.__cached__ = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)
        directory = os.path.dirname(os.path.realpath(argv[2]))
    if had_path:
        sys.path.insert(0, directory)
    return main


# Tracebacks begin in the script, as if Python had executed it.
def hide_own_frames():
    hook = sys.excepthook

    def show(kind, error, trace):
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        error.__traceback__ = trace
        hook(kind, error, trace)

    sys.excepthook = show


own_module = sys.modules["__main__"]  # kept when the worker's replaces it
control = socket.socket(fileno=os.dup(1))
null = os.open(os.devnull, os.O_WRONLY)
os.dup2(null, 1)
os.close(null)
set_title([b"warm-parent", os.fsencode(sys.argv[1])])
modules, argv = sys.argv[1].split(","), [sys.executable] + sys.argv[2:]
why = name = ""
try:
    why = unfit(argv)
    for name in [] if why else modules:
        importlib.import_module(name)
    if "torch" in modules and not why:
        try:
            importlib.import_module("torch._dynamo")  # by DistributedDataParallel and others
        except Exception:
            pass
    why = why or unfit(argv)  # by now it is known which modules a script could hide
except BaseException as error:
    why = "%s: %s" % (type(error).__name__, error)
    why = "cannot import %s: %s" % (name, why) if name else why
if not why:
    pid = os.fork()  # ends the threads of libraries that expect forks, such as OpenBLAS
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    why = unsafe()
if why:
    control.send(b"failed " + os.fsencode(why))
    os._exit(1)
own_name = read("/proc/self/comm").strip()
prctl(PR_SET_NAME, b"warm-parent")
gc.collect()
gc.freeze()  # the collector of a worker need not copy the pages of these objects
loaded = stamps()
control.send(b"ready")
line, fds = serve()

# From here on in the worker.
control.close()
with os.fdopen(fds.pop(0), "rb") as file:
    words = file.read().split(b"\0")
count = int(words[0])
argv = [os.fsdecode(word) for word in words[1 : count + 1]]
out, err, cpus, agent, is_traceable = words[count + 1 : count + 6]
why = unfit(argv)
if why:
    tell(b"no " + os.fsencode(why))
    os._exit(0)
prepare(fds, out, err, cpus)
tell(b"ready")
if not is_wanted():
    os._exit(127)
line.close()
prctl(PR_SET_PDEATHSIG, 9)
if os.getppid() != int(agent):
    os._exit(127)
if is_traceable == b"1":
    prctl(PR_SET_PTRACER, int(agent))
prctl(PR_SET_NAME, own_name)
set_title(words[1 : count + 1])
os.environb.clear()
for name, _, value in (word.partition(b"=") for word in words[count + 6 :] if word):
    os.environb[name] = value
refresh()
main = begin_main(argv)
try:
    if argv[2] == "-m":
        runpy._run_module_as_main(argv[3])
    else:
        exec(compile(read(main.__file__), main.__file__, "exec"), main.__dict__)
except SystemExit:
    raise
except BaseException:
    hide_own_frames()
    raise
)PY";

WorkerSpec warm_parent_spec(const WorkerSpec& worker, const std::vector<std::string>& modules,
                            bool has_one_worker) {
  WorkerSpec spec;
  spec.argv = {worker.argv.front(), "-u", "-c", std::string(warm_parent_source),
               fmt::format("{}", fmt::join(modules, ","))};
  spec.argv.insert(spec.argv.end(), worker.argv.begin() + 1, worker.argv.end());
  spec.err.target = StreamTarget::nowhere;
  // Libraries count the CPUs while they are loaded. With several workers OMP_NUM_THREADS is set,
  // which decides instead.
  if (has_one_worker) spec.cpus = worker.cpus;
  return spec;
}

Environment warm_parent_environment(const WorkerSpec& worker, Environment inherited) {
  for (const auto& [name, value] : worker.variables) inherited.erase(name);
  for (const auto name : {contract::omp_num_threads, contract::node_token}) {
    if (const auto* value = find_variable(worker.variables, name)) {
      inherited[std::string(name)] = *value;
    }
  }
  return inherited;
}

std::string warm_request(const WorkerSpec& spec, const Environment& inherited,
                         const WarmRequestTerms& terms) {
  std::string fields;
  const auto add = [&fields](std::string_view field) {
    fields += field;
    fields += '\0';
  };
  const auto path = [](const StreamPlan& plan, bool opens) -> std::string_view {
    if (!opens) return "";
    return plan.target == StreamTarget::nowhere ? std::string_view("/dev/null") : plan.file;
  };
  add(std::to_string(spec.argv.size()));
  for (const std::string& word : spec.argv) add(word);
  add(path(spec.out, terms.opens_out));
  add(path(spec.err, terms.opens_err));
  add(fmt::format("{}", fmt::join(spec.cpus, ",")));
  add(std::to_string(terms.agent));
  add(terms.is_traceable ? "1" : "0");
  Environment variables = spec.variables;
  variables.insert(inherited.begin(), inherited.end());
  for (const auto& [name, value] : variables) add(fmt::format("{}={}", name, value));
  return fields;
}

void WarmParentState::begin_round(TimePoint now, std::size_t workers, std::size_t cpus) {
  is_noted_ = false;
  is_first_round_ = !std::exchange(has_begun_, true);
  if (!is_first_round_) return;
  const bool pays = workers > cpus;
  due_ = pays ? now : now + warm_delay;
  if (pays) awaited_until_ = now + warm_wait_max;
}

std::optional<TimePoint> WarmParentState::awaited_until() const {
  const bool may_come = phase_ == Phase::importing || (phase_ == Phase::absent && due_);
  return may_come ? awaited_until_ : std::nullopt;
}

void WarmParentState::started() {
  due_.reset();
  phase_ = Phase::importing;
}

void WarmParentState::ended(TimePoint now) {
  if (phase_ == Phase::given_up) return;
  phase_ = Phase::absent;
  has_ended_ = true;
  awaited_until_.reset();
  due_ = now + pause_;
  pause_ = std::min(pause_ * 2, warm_pause_max);
}

void WarmParentState::give_up() {
  phase_ = Phase::given_up;
  due_.reset();
}

std::string WarmParentState::obstacle() const {
  switch (phase_) {
    case Phase::absent:
      return has_ended_ ? "the parent has exited" : "the parent has not been started yet";
    case Phase::importing:
      return "the parent is still importing";
    case Phase::ready:
      return "";
    case Phase::given_up:
      return "the parent cannot be used";
  }
  return "";
}

// Once given up, that was reported. In the first round there is nothing to expect.
std::string WarmParentState::note(const std::string& why) {
  const bool is_expected = is_first_round_ && phase_ == Phase::absent && !has_ended_;
  if (phase_ == Phase::given_up || is_expected || std::exchange(is_noted_, true)) return "";
  return fmt::format("note: --warm: workers are started without it: {}", why);
}

}  // namespace cpprun
