// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/worker.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tests/worker/child.h"
#include "tests/worker/temporary_directory.h"

namespace record_test {

using namespace cpprun;
using testing::Ended;
using testing::run_in_child;
using testing::TemporaryDirectory;

namespace {

// Runs `body` as rank 1 of 2 with an error file in `directory`.
Ended run_recorded(const TemporaryDirectory& directory, const WorkerMain& body) {
  return run_in_child([&] {
    ::setenv("RANK", "1", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "29500", 1);
    ::setenv("TORCHELASTIC_ERROR_FILE", directory.file("error.json").c_str(), 1);
    return run(body);
  });
}

std::string stack_in(const TemporaryDirectory& directory) {
  return nlohmann::json::parse(
      directory.read("error.json"))["message"]["extraInfo"]["py_callstack"];
}

std::string message_in(const TemporaryDirectory& directory) {
  return nlohmann::json::parse(directory.read("error.json"))["message"]["message"];
}

}  // namespace

// Not in an anonymous namespace: a backtrace shows the names that the linker has.
[[noreturn]] void lose_the_gradient();
[[gnu::noinline]] void lose_the_gradient() {
  throw std::runtime_error("lost");
}

TEST_CASE("the worker's return value is its exit code, and no error file appears") {
  const TemporaryDirectory directory;
  const Ended ended = run_recorded(directory, [](const Context& context) {
    return context.rank == Rank{1} && context.world_size == 2 ? 7 : 1;
  });
  CHECK(ended.exit_code == 7);
  CHECK(directory.entries() == 0);
}

TEST_CASE("an exception becomes an error file, a line and exit code 1") {
  const TemporaryDirectory directory;
  const Ended ended = run_recorded(
      directory, [](const Context&) -> int { throw std::runtime_error("loss is not finite"); });
  CHECK(ended.exit_code == 1);
  CHECK(ended.stderr_text == "rank 1: std::runtime_error: loss is not finite\n");
  CHECK(message_in(directory) == "std::runtime_error: loss is not finite");
  CHECK(directory.entries() == 1);
}

TEST_CASE("errors name a rank that became known late") {
  const TemporaryDirectory directory;
  const auto late = [&directory](const std::function<int()>& error) {
    return run_recorded(directory,
                        [&error](const Context&) {
                          name_rank_in_errors(3);
                          return error();
                        })
        .stderr_text;
  };
  CHECK(late([]() -> int { throw std::runtime_error("lost"); }) ==
        "rank 3: std::runtime_error: lost\n");
  CHECK(late([] { return ::raise(SIGSEGV); }).starts_with("rank 3: Signal 11 (SIGSEGV)"));
}

TEST_CASE("the report of an exception shows where it was thrown, by name") {
  const TemporaryDirectory directory;
  run_recorded(directory, [](const Context&) -> int { lose_the_gradient(); });
  const std::string stack = stack_in(directory);
  CHECK(stack.starts_with("#0 record_test::lose_the_gradient() ("));
  CHECK(stack.find("cpprun::v1::run(") != std::string::npos);
}

TEST_CASE("without an error file the stack is printed") {
  const Ended ended = run_in_child([] {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    return run([](const Context&) -> int { lose_the_gradient(); });
  });
  CHECK(ended.exit_code == 1);
  CHECK(ended.stderr_text.find("lost\n#0 record_test::lose_the_gradient() (") != std::string::npos);
}

TEST_CASE("a usage error is reported in a sentence, without a stack") {
  const Ended refused = run_in_child([] {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    return run([](const Context&) -> int { throw std::invalid_argument("no backend \"foo\""); });
  });
  CHECK(refused.stderr_text == "rank 0: std::invalid_argument: no backend \"foo\"\n");
  const Ended lost = run_in_child([] {
    ::unsetenv("TORCHELASTIC_ERROR_FILE");
    ::setenv("RANK", "abc", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    return run([](const Context&) { return 0; });
  });
  CHECK(lost.exit_code == 2);
  CHECK(lost.stderr_text.find("RANK=abc is not a whole number") != std::string::npos);
  CHECK(lost.stderr_text.find("#0 ") == std::string::npos);
}

TEST_CASE("an exception on a library's thread is recorded as well") {
  const TemporaryDirectory directory;
  const Ended ended = run_recorded(directory, [](const Context&) {
    std::thread thread([] { throw std::logic_error("op.preamble.length <= op.nbytes"); });
    thread.join();
    return 0;
  });
  CHECK(ended.exit_code == 1);
  CHECK(message_in(directory) == "std::logic_error: op.preamble.length <= op.nbytes");
}

TEST_CASE("a segmentation fault is recorded and stays a segmentation fault") {
  const TemporaryDirectory directory;
  const Ended ended = run_recorded(directory, [](const Context&) { return ::raise(SIGSEGV); });
  CHECK(ended.signal == SIGSEGV);
  CHECK(ended.stderr_text.find("rank 1: Signal 11 (SIGSEGV) received by PID ") == 0);
  CHECK(message_in(directory).find("Signal 11 (SIGSEGV) received by PID ") == 0);
  CHECK(directory.entries() == 1);
}

TEST_CASE("an abort is recorded and stays an abort") {
  const TemporaryDirectory directory;
  const Ended ended = run_recorded(directory, [](const Context&) -> int { std::abort(); });
  CHECK(ended.signal == SIGABRT);
  CHECK(message_in(directory).find("Signal 6 (SIGABRT)") == 0);
}

TEST_CASE("a program with its own main reads its ranks, or reports all errors at once") {
  const Ended ended = run_in_child([] {
    ::setenv("RANK", "1", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("MASTER_ADDR", "127.0.0.1", 1);
    ::setenv("MASTER_PORT", "29500", 1);
    if (read_context().rank != Rank{1}) return 1;
    ::setenv("RANK", "two", 1);
    ::unsetenv("MASTER_ADDR");
    try {
      static_cast<void>(read_context());
    } catch (const std::invalid_argument& error) {
      const std::string what = error.what();
      const bool both = what.find("RANK=two") != std::string::npos &&
                        what.find("MASTER_ADDR") != std::string::npos;
      return both ? 0 : 2;
    }
    return 3;
  });
  CHECK(ended.exit_code == 0);
}

TEST_CASE("an invalid environment ends the worker with 2 and an error file") {
  const TemporaryDirectory directory;
  const Ended ended = run_in_child([&] {
    ::setenv("RANK", "abc", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("TORCHELASTIC_ERROR_FILE", directory.file("error.json").c_str(), 1);
    return run([](const Context&) { return 0; });
  });
  CHECK(ended.exit_code == 2);
  CHECK(ended.stderr_text.find("RANK=abc is not a whole number") != std::string::npos);
  CHECK(message_in(directory).find("RANK=abc") != std::string::npos);
}

TEST_CASE("an error file that cannot be written does not hide the error") {
  const TemporaryDirectory directory;
  const Ended ended = run_in_child([&] {
    ::setenv("TORCHELASTIC_ERROR_FILE", directory.file("no/error.json").c_str(), 1);
    return run([](const Context&) -> int { throw std::runtime_error("first"); });
  });
  CHECK(ended.exit_code == 1);
  CHECK(ended.stderr_text.find("std::runtime_error: first\n") != std::string::npos);
  CHECK(ended.stderr_text.find("cannot write error file") != std::string::npos);
}

}  // namespace record_test
