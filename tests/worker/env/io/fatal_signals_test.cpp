// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/fatal_signals.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/worker/child.h"
#include "tests/worker/temporary_directory.h"

namespace fatal_signals_test {

using namespace cpprun;
using testing::Ended;
using testing::run_in_child;
using testing::TemporaryDirectory;

// Not in an anonymous namespace: a backtrace shows the names that the linker has.
int divide_by_nothing(int number);
[[gnu::noinline]] int divide_by_nothing(int number) {
  ::raise(number);
  return number + 1;
}

TEST_CASE("the report of a signal shows where it struck") {
  const TemporaryDirectory directory;
  const Ended ended = run_in_child([&] {
    install_fatal_signal_handlers(directory.file("error.json"), 3);
    return divide_by_nothing(SIGFPE);
  });
  CHECK(ended.signal == SIGFPE);
  const auto file = nlohmann::json::parse(directory.read("error.json"));
  const std::string stack = file["message"]["extraInfo"]["py_callstack"];
  // The linker's name: demangling would allocate.
  CHECK(stack.find("divide_by_nothing") != std::string::npos);
}

TEST_CASE("every fatal signal leaves a file that names it, and then has its default effect") {
  const auto dies_of = [](int number, const std::string& name) {
    const TemporaryDirectory directory;
    const Ended ended = run_in_child([&] {
      install_fatal_signal_handlers(directory.file("error.json"), 3);
      return ::raise(number);
    });
    CHECK(ended.signal == number);
    const auto file = nlohmann::json::parse(directory.read("error.json"));
    const std::string message = file["message"]["message"];
    CHECK(message.find("(" + name + ") received by PID") != std::string::npos);
    CHECK(std::stol(file["message"]["extraInfo"]["timestamp"].get<std::string>()) > 1600000000);
  };
  dies_of(SIGSEGV, "SIGSEGV");
  dies_of(SIGBUS, "SIGBUS");
  dies_of(SIGFPE, "SIGFPE");
  dies_of(SIGILL, "SIGILL");
  dies_of(SIGABRT, "SIGABRT");
}

TEST_CASE("an error that was recorded before the signal is not overwritten") {
  const TemporaryDirectory directory;
  std::ofstream(directory.file("error.json")) << "the cause";
  const Ended ended = run_in_child([&] {
    install_fatal_signal_handlers(directory.file("error.json"), 0);
    return ::raise(SIGABRT);
  });
  CHECK(ended.signal == SIGABRT);
  CHECK(directory.read("error.json") == "the cause");
}

TEST_CASE("a signal that already has a handler is left to it") {
  const TemporaryDirectory directory;
  const Ended ended = run_in_child([&] {
    ::signal(SIGFPE, [](int) { ::_exit(9); });
    install_fatal_signal_handlers(directory.file("error.json"), 0);
    return ::raise(SIGFPE);
  });
  CHECK(ended.exit_code == 9);
  CHECK(directory.entries() == 0);
}

TEST_CASE("without an error file a line is still printed") {
  const Ended ended = run_in_child([] {
    install_fatal_signal_handlers("", 2);
    return ::raise(SIGSEGV);
  });
  CHECK(ended.signal == SIGSEGV);
  CHECK(ended.stderr_text.find("rank 2: Signal 11 (SIGSEGV)") == 0);
}

}  // namespace fatal_signals_test
