// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/findings.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace doctor_text_test {

using namespace cpprun;
using namespace cpprun::doctor;
using namespace std::chrono_literals;

namespace {

ExaminedHost some(const std::string& name) {
  ExaminedHost host{.member = {0, name, 0}, .clock = ClockOffset{-1500ms, 1ms}};
  host.facts = HostFacts{.host = "box",
                         .cpprun = "cpprun 1.2 (commit abc)",
                         .gpus = {8, 7, 7},
                         .limits = {.open_files = 1024},
                         .shared_memory = {"/dev/shm", 64 << 20, 32 << 20, ""},
                         .temporary = {"/tmp", 99, 98, ""}};
  host.dialed = {{.number = 1, .addresses = {"10.0.0.2"}, .reached = Reached::silent}};
  return host;
}

ExaminedHost gone() {
  return {.member = {1, "h2", 0}, .gone = "Connection refused"};
}

}  // namespace

TEST_CASE("a single machine has no clock and no other hosts") {
  ExaminedHost alone = some("");
  alone.dialed = {};
  CHECK(doctor_text({alone}, {}, {}) ==
        "HOST  CPPRUN    GPUS  FILES  PROCESSES     LOCKED              SHM FREE  TMP FREE\n"
        "box   1.2     7 of 8   1024  unlimited  unlimited  32.0 MiB of 64.0 MiB      98 B\n"
        "no problems found\n");
}

TEST_CASE("what can be read of workers that hang is a table of its own") {
  ExaminedHost alone = some("");
  alone.dialed = {};
  alone.facts->stacks =
      StackSources{.python = "3.11.2", .torch = "2.13.0", .has_py_spy = true, .ptrace_scope = 1};
  const auto shown = [&alone] { return doctor_text({alone}, {}, {}); };
  CHECK(shown().ends_with(
      "\nsources for the stacks of hung workers, besides /proc:\n"
      "HOST  PROBE                                PY-SPY  LIBDW  PTRACE\n"
      "box   yes (PyTorch 2.13.0, Python 3.11.2)  yes     yes    yes, except with --probe=off "
      "(ptrace_scope 1)\n"
      "\nno problems found\n"));
  StackSources& stacks = *alone.facts->stacks;
  stacks = {.libdw_refusal = "not installed", .ptrace_refusal = "EPERM", .ptrace_scope = 3};
  CHECK(shown().find(
            "box   no Python  not on PATH  no (not installed)  no (EPERM; ptrace_scope 3)") !=
        std::string::npos);
  stacks = {.python = "3.9.1", .torch = "2.3.1+cpu"};
  CHECK(shown().find("no (PyTorch 2.3.1+cpu, Python 3.9.1; needs PyTorch 2.4)") !=
        std::string::npos);
  stacks.python = "3.13.0";
  CHECK(shown().find("not needed (Python 3.13.0)") != std::string::npos);
  for (const char* unknown : {"3.13.0t", "3.15.0"}) {
    stacks.python = unknown;
    CHECK(shown().find("  not on PATH  ") != std::string::npos);
  }
  stacks.python = "3.13.0";
  stacks.ptrace_refusal = "EPERM";
  CHECK(shown().find("  not on PATH  ") != std::string::npos);
  stacks.ptrace_refusal = "";
  stacks.torch = "2.8.0";
  CHECK(shown().find("stacks only (PyTorch 2.8.0") != std::string::npos);
  const auto json = nlohmann::json::parse(doctor_json({alone}, {}));
  CHECK(json["hosts"][0]["facts"]["stacks"]["torch"] == "2.8.0");
  CHECK(json["hosts"][0]["facts"]["stacks"]["ptrace_scope"].is_null());
}

TEST_CASE("hosts are a table, and findings come with their hints") {
  const auto text =
      doctor_text({some("h1"), gone()}, {{"h2", "examination failed: no", "mend it"}}, {});
  CHECK(text.find("CLOCK   NAMES  REACHES\n") != std::string::npos);
  CHECK(text.find("-1.500 s  1 of 1   0 of 1\n") != std::string::npos);
  CHECK(text.find("h2    not examined\n") != std::string::npos);
  CHECK(text.ends_with("\n1 finding:\n  h2: examination failed: no\n    hint: mend it\n"));
}

TEST_CASE("untested pairs are reported") {
  const std::vector<ExaminedHost> hosts(40, some("h"));
  CHECK(doctor_text(hosts, {}, {})
            .find("each host tested connections to the next 32 hosts in the list and to the first "
                  "host: 40 of 1560 pairs\n") != std::string::npos);
}

TEST_CASE("the doctor's JSON has the same content as its text") {
  const auto json =
      nlohmann::json::parse(doctor_json({some("h1"), gone()}, {{"h2", "what", "do this"}}));
  CHECK(json["hosts"][0]["facts"]["gpus"] == 7);
  CHECK(json["hosts"][0]["facts"]["processes_max"].is_null());
  CHECK(json["hosts"][0]["clock_ahead_seconds"] == -1.5);
  CHECK(json["hosts"][1]["not_examined"] == "Connection refused");
  CHECK(json["pairs"][0]["from"] == "h1");
  CHECK(json["pairs"][0]["to"] == "h2");
  CHECK(json["pairs"][0]["reached"] == "silent");
  CHECK(json["findings"][0]["cure"] == "do this");
}

}  // namespace doctor_text_test
