// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/operator_command.h"

#include <doctest/doctest.h>

#include <csignal>

namespace operator_command_test {

using namespace cpprun;

TEST_CASE("each command has a name, and each name a command") {
  for (const char* name : {"stop", "restart", "save", "drain", "exclude", "include", "forget"}) {
    CAPTURE(name);
    REQUIRE(command_kind(name));
    CHECK(name_of(*command_kind(name)) == name);
  }
  CHECK_FALSE(command_kind("Stop"));
  CHECK_FALSE(command_kind(""));
}

TEST_CASE("the text of a command names its sender and reason") {
  const OperatorCommand command{.kind = OperatorCommand::Kind::drain,
                                .job = "a",
                                .whom = "3",
                                .reason = "it smells",
                                .by = "uid 0 (root)"};
  CHECK(text_of(command) == "uid 0 (root) asks to drain \"3\" of job \"a\" (it smells)");
  CHECK(told_by(command, "drained node 3") == "uid 0 (root) drained node 3: it smells");
  CHECK(told_by({.by = "uid 7"}, "stopped the job") == "uid 7 stopped the job");
}

TEST_CASE("save accepts only signals that do not end a process with a handler") {
  CHECK_FALSE(objection_to_signal(SIGUSR1));
  CHECK_FALSE(objection_to_signal(SIGUSR2));
  CHECK(objection_to_signal(SIGKILL)->starts_with("SIGKILL would terminate or suspend"));
  CHECK(objection_to_signal(SIGSTOP));
  CHECK(objection_to_signal(0));
}

}  // namespace operator_command_test
