// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/examination.h"

#include <doctest/doctest.h>

namespace exchange_json_test {

using namespace cpprun;
using namespace cpprun::doctor;

TEST_CASE("questions survive a round trip") {
  const Question facts = AskFacts{29500};
  const Question dial = AskDial{
      {{.number = 2, .name = "h2", .address = "10.0.0.2", .port = 4000, .greeting = "word\n"}}};
  CHECK(read_question(to_json(facts)).value() == facts);
  CHECK(read_question(to_json(dial)).value() == dial);
}

TEST_CASE("answers survive a round trip") {
  const Reading facts = HostFacts{.host = "h1",
                                  .version = "1",
                                  .cpprun = "cpprun 1",
                                  .network = "boot net",
                                  .gpus = {8, 7, 6},
                                  .missing_gpus = "7 of 8",
                                  .has_infiniband = true,
                                  .limits = {.open_files = 1024, .processes = 5},
                                  .shared_memory = {"/dev/shm", 10, 9, ""},
                                  .temporary = {"/tmp", 8, 7, "read-only"},
                                  .stacks = StackSources{.python = "3.11.2",
                                                         .torch = "2.13.0",
                                                         .has_py_spy = true,
                                                         .libdw_refusal = "none",
                                                         .ptrace_refusal = "no",
                                                         .ptrace_scope = 1},
                                  .asked = WallTime{std::chrono::microseconds(17)},
                                  .answered = WallTime{std::chrono::microseconds(18)},
                                  .port = 4000,
                                  .why_no_port = "why",
                                  .greeting = "word\n"};
  const Reading dialed = std::vector<Dialed>{{.number = 1,
                                              .addresses = {"::1", "10.0.0.1"},
                                              .why_unresolved = "",
                                              .reached = Reached::silent,
                                              .where = "10.0.0.1:4000",
                                              .why = "no answer"}};
  CHECK(read_reading(to_json(facts)).value() == facts);
  CHECK(read_reading(to_json(dialed)).value() == dialed);
}

TEST_CASE("invalid questions and answers are rejected") {
  CHECK_FALSE(read_question("{}"));
  CHECK_FALSE(read_reading("{"));
  CHECK_FALSE(read_reading("{\"host\": 3}"));
}

}  // namespace exchange_json_test
