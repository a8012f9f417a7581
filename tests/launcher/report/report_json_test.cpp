// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "launcher/report/report.h"
#include "tests/launcher/failure/diagnosed.h"

namespace report_json_test {

using namespace cpprun;
using testing::diagnosed;

namespace {

Evidence ended(int rank, link::ExitStatus status, int our_signal = 0) {
  Evidence evidence;
  evidence.outcome.local_rank = LocalRank{rank};
  evidence.outcome.rank = Rank{rank};
  evidence.outcome.pid = 100 + rank;
  evidence.outcome.status = status;
  evidence.outcome.our_signal = our_signal;
  return evidence;
}

nlohmann::json json_of(const ReportFacts& facts) {
  return nlohmann::json::parse(report_json(facts));
}

}  // namespace

TEST_CASE("the JSON report describes the root by what this node saw of it") {
  auto root = ended(1, {false, 1});
  root.last_lines = {"Traceback (most recent call last):", "  f()", "ValueError: bad"};
  root.stderr_file = "/logs/1/stderr.log";
  ReportFacts facts{.job = "job7",
                    .program = {"/usr/bin/python3", "-u", "train.py"},
                    .interpreter = "/usr/bin/python3",
                    .host = "node0",
                    .exit_code = 1,
                    .restarts = 2,
                    .ends = {diagnosed(ended(0, {true, SIGTERM}, SIGTERM)), diagnosed(root)},
                    .reason = "rank 1 failed"};
  facts.root = failure_of(facts.ends.back(), GroupRank{0}, "node0");
  const auto json = json_of(facts);
  CHECK(json.at("succeeded") == false);
  CHECK(json.at("restarts") == 2);
  CHECK(json.at("root").at("rank") == 1);
  CHECK(json.at("root").at("cause") == "python_exception");
  CHECK(json.at("root").at("message") == "ValueError: bad");
  CHECK(json.at("root").at("last_lines").size() == 3);
  CHECK(json.at("root").at("stderr") == "/logs/1/stderr.log");
  CHECK(json.at("others").size() == 1);
  CHECK(json.at("others")[0].at("cause") == "told_to_end");
  CHECK(json.at("others")[0].at("consequence") == true);
}

TEST_CASE("a root on another node is described by its message") {
  ReportFacts facts{.exit_code = 137};
  facts.group_rank = GroupRank{1};
  facts.root = link::Failure{.rank = Rank{0}, .host = "node0", .cause = "out_of_memory"};
  const auto json = json_of(facts);
  CHECK(json.at("root").at("host") == "node0");
  CHECK(json.at("root").at("reason") == "killed by the kernel: out of memory");
}

TEST_CASE("a successful job has a report without a root") {
  const auto json = json_of({.job = "job7", .exit_code = 0});
  CHECK(json.at("succeeded") == true);
  CHECK(json.at("root").is_null());
  CHECK(json.at("others").empty());
}

TEST_CASE("a hint is part of the reason in the JSON report") {
  const auto json = json_of({.exit_code = 2, .reason = "no script given\n  hint: add one"});
  CHECK(json.at("reason") == "no script given; add one");
}

TEST_CASE("changes of leader are reported, with the time without a response") {
  ReportFacts facts{.exit_code = 1, .reason = "r"};
  CHECK(json_of(facts).at("leader_changes").empty());
  facts.hear(WallTime{} + std::chrono::seconds(9),
             events::LeaderChanged{.from = {"a", 29400},
                                   .to = {"b", 29400},
                                   .epoch = 7,
                                   .silence = std::chrono::milliseconds(12)});
  const auto json = json_of(facts);
  CHECK(json.at("leader_changes") == nlohmann::json::array({{{"time", 9.0},
                                                             {"from", "a:29400"},
                                                             {"to", "b:29400"},
                                                             {"epoch", 7},
                                                             {"silence", 0.012}}}));
  CHECK(json.at("leader_changes_left_out") == 0);
  CHECK(report(facts).find("cpprun: leadership moved 1 time: to b:29400 from a:29400 at "
                           "1970-01-01T00:00:09.000Z, 0.012 s without a response\n") !=
        std::string::npos);
}

}  // namespace report_json_test
