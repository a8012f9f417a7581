// SPDX-License-Identifier: BSD-3-Clause
// Real Python processes, whose memory is read from outside.
#include "launcher/hang/io/process_memory.h"

#include <doctest/doctest.h>
#include <sched.h>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hang/python_memory.h"
#include "tests/launcher/hang/io/python_worker.h"

namespace process_memory_test {

using namespace cpprun;
using hang::Answer;
using probe::PythonWorker;

namespace {

// Calls in every form that changes a table of lines. The last line is where it hangs.
constexpr const char* script = R"PY(
import sys, threading, time, functools

def forever(function):
    @functools.wraps(function)
    def wrapper(*arguments,
                **keywords):

        return function(*arguments, **keywords)
    return wrapper

class Loader:
    @forever
    def next_batch(self, ready):
        values = [len(str(value))
                  for value in range(300)]
        try:
            raise ValueError(values)
        except ValueError:
            for value in self.batches(ready):
                print(value)

    def batches(self, ready):
        yield from (
            call(
                ready)
            for call in [lambda ready:
                             self.wait(ready)]
        )

    def wait(self, ready):
        ready()
        HANG

def thread():
    event.set()
    threading.Event().wait()

event = threading.Event()
threading.Thread(target=thread, daemon=True).start()
event.wait()
time.sleep(0.05)
Loader().next_batch(
    lambda: print("ready", flush=True)
)
)PY";

std::string hanging_in(const std::string& statement) {
  std::string text = script;
  return text.replace(text.find("HANG"), 4, statement);
}

// ".../3.13.0/bin/python3", "/usr/bin/python3.14".
bool is_read(const std::string& python) {
  const auto at = python.find("3.");
  return at != python.npos && hang::has_known_layout(std::string_view(python).substr(at));
}

std::vector<std::string> pythons(bool are_read) {
  auto found = probe::pythons();
  std::erase_if(found, [&](const std::string& python) { return is_read(python) != are_read; });
  if (found.empty()) {
    const std::string reason = are_read ? "no Python 3.13 or 3.14" : "no other Python";
    MESSAGE("skipped: " << reason);
  }
  return found;
}

io::PythonStacks stacks_of(int pid) {
  return io::python_stacks_of(pid, TimePoint::max());
}

// Once it waits in the last line of the script, with or without the GIL.
io::PythonStacks stacks_of_hang(const PythonWorker& worker, bool holds_gil) {
  constexpr int attempts_max = 20'000;
  io::PythonStacks seen;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
    seen = stacks_of(worker.pid);
    const bool is_there =
        seen.traceback.body.find("train.py\", line 33 in wait\n") != std::string::npos;
    if (is_there && seen.main_holds_gil == holds_gil) return seen;
    // A reason that does not pass.
    REQUIRE_MESSAGE(seen.traceback.reason.find("permission") == std::string::npos,
                    seen.traceback.reason);
    ::sched_yield();
  }
  FAIL(seen.traceback.body << seen.traceback.reason);
  return seen;
}

using Stacks = std::vector<hang::ThreadStack>;

// What faulthandler writes on the probe's signal.
Stacks stacks_by_faulthandler(PythonWorker& worker) {
  ::kill(worker.pid, 60);
  std::string text;
  for (;;) {
    const std::string line = worker.out.read_line();
    text += line + "\n";
    if (line.find("in <module>") != line.npos) break;
  }
  auto stacks = hang::parse_traceback(text);
  REQUIRE_MESSAGE(stacks.has_value(), text);
  return *stacks;
}

}  // namespace

TEST_CASE("the stacks in the memory of a Python are those that faulthandler writes") {
  for (const auto& python : pythons(/*are_read=*/true)) {
    CAPTURE(python);
    PythonWorker worker(python, hanging_in("time.sleep(1000)"));
    REQUIRE(worker.out.read_line() == "ready");
    const auto seen = stacks_of_hang(worker, /*holds_gil=*/false);
    CHECK(seen.traceback.kind == Answer::Kind::answered);
    const auto stacks = hang::parse_traceback(seen.traceback.body);
    REQUIRE(stacks.has_value());
    CHECK_MESSAGE(*stacks == stacks_by_faulthandler(worker), seen.traceback.body);
    CHECK(stacks->back().frames.size() >= 7);
  }
}

TEST_CASE("a Python whose layout is not known has no stacks in its memory") {
  for (const auto& python : pythons(/*are_read=*/false)) {
    CAPTURE(python);
    PythonWorker worker(python, hanging_in("time.sleep(1000)"));
    REQUIRE(worker.out.read_line() == "ready");
    CHECK(stacks_of(worker.pid).traceback.kind != Answer::Kind::answered);
  }
}

TEST_CASE("without time no memory is read") {
  for (const auto& python : pythons(/*are_read=*/true)) {
    CAPTURE(python);
    PythonWorker worker(python, hanging_in("time.sleep(1000)"));
    REQUIRE(worker.out.read_line() == "ready");
    CHECK(io::python_stacks_of(worker.pid, TimePoint::min()).traceback ==
          Answer{.kind = Answer::Kind::failed, .body = {}, .reason = "no time was left"});
  }
}

TEST_CASE("a Python that is stopped, or holds the GIL in C, is read from its memory") {
  for (const auto& python : pythons(/*are_read=*/true)) {
    CAPTURE(python);
    PythonWorker worker(python, hanging_in("__import__('ctypes').PyDLL(None).sleep(1000)"));
    REQUIRE(worker.out.read_line() == "ready");
    const auto seen = stacks_of_hang(worker, /*holds_gil=*/true);
    ::kill(worker.pid, SIGSTOP);
    int status = 0;
    REQUIRE(::waitpid(worker.pid, &status, WUNTRACED) == worker.pid);
    const auto stopped = stacks_of(worker.pid);
    CHECK(stopped.traceback.body == seen.traceback.body);
    CHECK(stopped.main_holds_gil);
  }
}

TEST_CASE("a process that is no Python has no Python stacks") {
  CHECK(stacks_of(::getpid()).traceback.kind == Answer::Kind::not_asked);
  CHECK(stacks_of(1 << 30).traceback.kind == Answer::Kind::not_asked);
}

}  // namespace process_memory_test
