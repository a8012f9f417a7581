// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/helper_processes.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "tests/launcher/io_probe.h"

namespace helper_processes_test {

using namespace cpprun;
using namespace std::chrono_literals;
using probe::Pipe;

TEST_CASE("the result of a helper process is returned, whatever bytes it has") {
  HelperProcesses side;
  const std::string much(200'000, '\xff');
  CHECK(side.ask([&] { return much; }, 60s) == much);
  CHECK(side.ask([] { return std::string(); }, 60s) == "");
  CHECK(side.pids().empty());
}

TEST_CASE("changes in the helper stay there, and an exception means no result") {
  HelperProcesses side;
  int here = 1;
  CHECK(side.ask([&] { return std::to_string(++here); }, 60s) == "2");
  CHECK(here == 1);
  CHECK(side.ask([]() -> std::string { throw std::runtime_error("no"); }, 60s) == "");
}

TEST_CASE("a helper that does not answer is abandoned, and killed where possible") {
  HelperProcesses side;
  const auto hang = [] { return std::to_string(::pause()); };
  CHECK(side.ask(hang, 20ms) == std::nullopt);
  REQUIRE(side.pids().size() == 1);
  const int pid = side.pids().front();
  int status = 0;
  CHECK(::waitpid(pid, &status, 0) == pid);
  CHECK(WTERMSIG(status) == SIGKILL);
  side.reaped(pid);
  CHECK(side.pids().empty());
}

TEST_CASE("each message of a helper restarts its timeout, and a silent helper is abandoned") {
  HelperProcesses side;
  const auto say_much = [](const HelperProcesses::Say& say) {
    for (int word = 0; word < 1000; ++word) say("word ");
  };
  CHECK(side.ask_within(say_much, 60s).value_or("").size() == 5000);
  CHECK(side.pids().empty());
  const auto hang = [](const HelperProcesses::Say& say) {
    say("word");
    (void)::pause();
  };
  CHECK(side.ask_within(hang, 20ms) == std::nullopt);
  CHECK(side.pids().size() == 1);
}

TEST_CASE("a helper has only the descriptors that it was given, and blocks all signals but KILL") {
  HelperProcesses side;
  Pipe kept;
  Pipe other;
  const auto look = [&] {
    ::raise(SIGTERM);
    char byte = 'x';
    const bool has_kept = ::write(kept.in(), &byte, 1) == 1;
    const bool has_other = ::write(other.in(), &byte, 1) == 1;
    return std::string(has_kept ? "kept " : "") + (has_other ? "other" : "");
  };
  // Asking keeps only its own pipe; starting keeps the named descriptors.
  CHECK(side.ask(look, 60s) == "");
  const auto pid = side.start({kept.in()}, [&] { look(); });
  REQUIRE(pid);
  kept.close_in();
  CHECK(kept.read_all() == "x");
  other.close_in();
  CHECK(other.read_all() == "");
}

}  // namespace helper_processes_test
