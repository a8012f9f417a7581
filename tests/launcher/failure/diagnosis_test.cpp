// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/diagnosis.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <type_traits>

#include "launcher/failure/bounds.h"
#include "launcher/output/lines.h"
#include "tests/launcher/failure/diagnosed.h"

namespace diagnosis_test {

using namespace cpprun;

namespace {

// One function judges, and the tests get what it found.
static_assert(!std::is_constructible_v<DiagnosedEnd, Evidence>);
static_assert(!std::is_constructible_v<DiagnosedEnd, Evidence, Diagnosis>);
static_assert(!std::is_default_constructible_v<DiagnosedEnd> && !std::is_aggregate_v<DiagnosedEnd>);

Diagnosis diagnose(const Evidence& evidence) {
  return testing::diagnosed(evidence).diagnosis();
}

link::Failure failure_of_end(const Evidence& evidence, int group_rank) {
  return failure_of(testing::diagnosed(evidence), GroupRank{group_rank},
                    fmt::format("node{}", group_rank));
}

Evidence ended(link::ExitStatus status, int our_signal = 0) {
  Evidence evidence;
  evidence.outcome.rank = Rank{1};
  evidence.outcome.pid = 42;
  evidence.outcome.status = status;
  evidence.outcome.our_signal = our_signal;
  evidence.executable = "./train";
  return evidence;
}

std::string words(link::ExitStatus status, int our_signal = 0) {
  return to_text(ended(status, our_signal).outcome, "./train");
}

}  // namespace

TEST_CASE("an exit is described in words, and states whether cpprun caused it") {
  CHECK(words({false, 3}) == "exited with code 3");
  CHECK(words({true, SIGSEGV}) == "was killed by SIGSEGV (segmentation fault)");
  CHECK(words({true, SIGUSR1}) == "was killed by SIGUSR1");
  CHECK(words({true, 60}) == "was killed by signal 60");
  CHECK(words({true, SIGTERM}, SIGTERM) == "terminated by cpprun (SIGTERM)");
  CHECK(words({false, 1}, SIGTERM) == "exited with code 1 after cpprun sent SIGTERM");
  CHECK(words({true, SIGSEGV}, SIGTERM) ==
        "was killed by SIGSEGV (segmentation fault) after cpprun sent SIGTERM");
}

TEST_CASE("a failed start is reported with its stage, the reason and a hint") {
  auto evidence = ended({false, 127});
  evidence.outcome.spawn_error = SpawnError{SpawnStage::exec, ENOENT};
  const auto diagnosis = diagnose(evidence);
  CHECK(diagnosis.ending ==
        "could not be started: cannot execute \"./train\": No such file or directory");
  CHECK(diagnosis.cause == "program_missing");
  CHECK(diagnosis.advice.starts_with("check that the path is correct"));
  CHECK(failure_of_end(evidence, 0).message == diagnosis.ending);
  evidence.outcome.spawn_error = SpawnError{SpawnStage::stdout_target, ENOENT};
  CHECK(diagnose(evidence).ending ==
        "could not be started: cannot redirect its stdout: No such file or directory");
  CHECK(diagnose(evidence).cause == "log_folder_unwritable");
}

TEST_CASE("the error file comes first, the last line of stderr second") {
  auto evidence = ended({false, 1});
  evidence.last_lines = {"Traceback (most recent call last):", "ValueError: from stderr", "  "};
  CHECK(diagnose(evidence).message == "ValueError: from stderr");
  evidence.error_text = R"({"message": {"message": "ValueError: recorded",
                            "extraInfo": {"py_callstack": "stack", "timestamp": "1"}}})";
  CHECK(diagnose(evidence).message == "ValueError: recorded");
  CHECK(diagnose(evidence).traceback == "stack");
}

TEST_CASE("an invalid error file is reported, and stderr is used instead") {
  auto evidence = ended({false, 1});
  evidence.error_text = "not json";
  evidence.last_lines = {"last words"};
  CHECK(diagnose(evidence).message == "last words");
  CHECK(diagnose(evidence).reason.ends_with("; the error file is not JSON"));
}

TEST_CASE("an error file names its writer only if it shows one") {
  const auto cause_of_file = [](const std::string& message, const std::string& stack) {
    auto evidence = ended({false, 1});
    evidence.error_text = R"({"message": {"message": ")" + message +
                          R"(", "extraInfo": {"py_callstack": ")" + stack + R"("}}})";
    return std::string(diagnose(evidence).cause);
  };
  CHECK(cause_of_file("the data loader gave up", "") == "recorded_error");
  CHECK(cause_of_file("step 7: no data", "") == "recorded_error");
  CHECK(cause_of_file("ValueError: bad label", "Traceback (most recent call last)") ==
        "python_exception");
  CHECK(cause_of_file("ValueError: bad label", "") == "python_exception");
  CHECK(cause_of_file("std::runtime_error: bad label", "") == "cpp_exception");
  CHECK(cause_of_file("bad label", "main at train.cpp:7") == "cpp_exception");
}

TEST_CASE("the last lines of a worker are valid text, whatever it wrote") {
  CHECK(last_lines_of("\x1b[31mRuntimeError: CUDA out of memory\x1b[0m\a\n") ==
        std::vector<std::string>{"RuntimeError: CUDA out of memory "});
}

TEST_CASE("a KILL from outside suggests memory, a KILL by cpprun does not") {
  CHECK(diagnose(ended({true, SIGKILL})).cause == "killed");
  auto evidence = ended({true, SIGKILL});
  evidence.host_facts.oom_kills = 1;
  evidence.host_facts.memory_limit = "4.0 GiB";
  CHECK(diagnose(evidence).reason == "killed by the kernel: out of memory (cgroup limit 4.0 GiB)");
  CHECK(diagnose(ended({true, SIGKILL}, SIGKILL)).cause == told_to_end);
}

TEST_CASE("a message for the coordinator is one line of limited length") {
  auto evidence = ended({false, 1});
  evidence.last_lines = {"bad \xFF\xE2\x82 byte\tand \xE2\x82\xAC " + std::string(9000, 'x')};
  const auto message = failure_of_end(evidence, 2).message;
  CHECK(message.starts_with("bad ??? byte and \xE2\x82\xAC xxx"));
  CHECK(message.size() <= bounds::failure_message_bytes_max);
}

TEST_CASE("a failure contains rank, host and exit status") {
  auto evidence = ended({true, SIGABRT});
  const auto failure = failure_of_end(evidence, 2);
  CHECK(failure.rank == Rank{1});
  CHECK(failure.group_rank == GroupRank{2});
  CHECK(failure.host == "node2");
  CHECK(failure.pid == 42);
  CHECK(failure.status == link::ExitStatus{true, SIGABRT});
  CHECK(failure.cause == "aborted");
  CHECK_FALSE(failure.consequence);
  evidence.last_lines = {"terminate called after throwing", "  what():  Connection closed by peer"};
  CHECK(failure_of_end(evidence, 2).consequence);
}

TEST_CASE("advice names the program that ran") {
  auto evidence = ended({false, 1});
  evidence.executable = "/opt/python";
  evidence.last_lines = {"ModuleNotFoundError: No module named 'torch'"};
  evidence.host_facts.module.in_environment = true;
  const auto advice = diagnose(evidence).advice;
  CHECK(advice.find("/opt/python -m pip install") != std::string::npos);
  evidence.host_facts.module.similar = "touch";
  CHECK(diagnose(evidence).advice.starts_with("did you mean \"touch\"?"));
  CHECK(diagnose(evidence).message == "ModuleNotFoundError: No module named 'torch'");
}

TEST_CASE("advice does not repeat what was done already") {
  auto evidence = ended({false, 3});
  CHECK(diagnose(evidence).advice.find("--redirects 3") != std::string::npos);
  evidence.stderr_file = "/logs/1/stderr.log";
  CHECK(diagnose(evidence).advice == "see the end of its output in /logs/1/stderr.log");
}

TEST_CASE("a crash is reported with the kernel log's lines about it") {
  auto evidence = ended({true, SIGSEGV});
  evidence.host_facts.kernel_lines = {"train[42]: segfault at 0 ip 1 sp 2 error 4 in libx.so"};
  CHECK(diagnose(evidence).reason ==
        "invalid memory access (train[42]: segfault at 0 ip 1 sp 2 error 4 in libx.so)");
}

}  // namespace diagnosis_test
