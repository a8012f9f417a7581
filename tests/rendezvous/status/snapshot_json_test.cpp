// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/rendezvous/job/job_table.h"

namespace snapshot_json_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

// The wall clock shows 1000 s when the monotonic clock shows 10 s.
const ClockPair at_ten{.now = t0 + 10s, .wall = WallTime{} + 1000s};

Table failed_once() {
  Table table(3);
  table.seal();
  table.hear(t0 + 4s, b,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{3},
                                      .pid = 77,
                                      .status = {true, 9},
                                      .time = WallTime{} + 994s,
                                      .message = "\xff<script>\n",
                                      .cause = "killed"}});
  table.drained(t0 + 6s, 1, {a, b});
  return table;
}

}  // namespace

TEST_CASE("a list of jobs has a summary of each, and where the next page starts") {
  const Table table = failed_once();
  const auto text = jobs_json({snapshot_of(table.job, at_ten.now)}, "j", at_ten);
  const auto read = json::parse(text);
  CHECK(text.ends_with("}\n"));
  CHECK(read["time"] == 1000.0);
  CHECK(read["next"] == "j");
  REQUIRE(read["jobs"].size() == 1);
  const auto& job = read["jobs"][0];
  CHECK(job["job"] == "j");
  CHECK(job["state"] == "running");
  CHECK(job["since"] == 996.0);
  CHECK(job["round"] == 2);
  CHECK(job["world_size"] == 4);
  CHECK(job["nodes"]["running"] == 2);
  CHECK(job["restarts"] == 1);
  CHECK(job["restarts_max"] == 3);
  CHECK(job["restarts_left"] == 2);
  CHECK(job["restart_budgets"].empty());
  CHECK(job["policy"] == "--max-restarts=3");
  CHECK(job["lease"] == 3.0);
  CHECK(job["exit_code"].is_null());
  CHECK(json::parse(jobs_json({}, std::nullopt, at_ten))["next"].is_null());
}

TEST_CASE("a job has its rounds, with failures in the form of events") {
  const Table table = failed_once();
  const auto read = json::parse(job_json(details_of(table.job, at_ten.now), at_ten));
  REQUIRE(read["rounds"].size() == 2);
  const auto& first = read["rounds"][0];
  CHECK(first["began"] == 990.0);
  CHECK(first["ended"] == 996.0);
  const auto& failure = first["failure"];
  CHECK(failure["rank"] == 3);
  CHECK(failure["local_rank"] == 1);
  CHECK(failure["node"] == 1);
  CHECK(failure["host"] == "host1");
  CHECK(failure["pid"] == 77);
  CHECK(failure["exit_code"] == 137);
  CHECK(failure["signal"] == "SIGKILL");
  CHECK(failure["time"] == 994.0);
  CHECK(failure["cause"] == "killed");
  CHECK(failure["consequence"] == false);
  CHECK(read["rounds"][1]["ended"].is_null());
  CHECK(read["rounds"][1]["failure"].is_null());
  CHECK(read["root"].is_null());
}

TEST_CASE("a daemon's job says whether the next cpprund would resume it") {
  Table table;
  table.join(t0, a, node(0));  // None of them is in the coordinator's own process.
  table.join(t0, b, node(1));
  const auto read = [&table](std::optional<bool> durable) {
    const DaemonSnapshot daemon{.leads = true, .durable = durable};
    return json::parse(job_json(details_of(table.job, at_ten.now, daemon), at_ten));
  };
  CHECK(read({})["warnings"].size() == 1);
  CHECK(read({})["cover"] == "if the machine of the cpprund is lost, the job is lost");
  CHECK(read(true)["durable"] == true);
  CHECK(read(true)["cover"] ==
        "if the cpprund exits, the next cpprund resumes the job; if the machine is lost with its "
        "disk, the job is lost");
  CHECK(read(false)["durable"] == false);
  CHECK(read(false)["cover"] ==
        "if the cpprund exits, the job is lost, because it cannot write to its state directory "
        "(--state; see its log)");
}

TEST_CASE("invalid UTF-8 of a worker does not break an answer") {
  const Table table = failed_once();
  const auto read = json::parse(job_json(details_of(table.job, at_ten.now), at_ten));
  CHECK(read["rounds"][0]["failure"]["message"] == "\xef\xbf\xbd<script>\n");
}

TEST_CASE("an ended job has its exit code, its reason and its root cause") {
  Table table;
  table.seal();
  table.hear(
      t0 + 4s, b,
      link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{3}, .status = {false, 7}}});
  table.drained(t0 + 6s, 1, {a, b});
  const auto read = json::parse(job_json(details_of(table.job, at_ten.now), at_ten));
  CHECK(read["cover"] == "");
  CHECK(read["durable"].is_null());
  CHECK(read["state"] == "over");
  CHECK(read["exit_code"] == 7);
  CHECK(read["reason"] == "rank 3 on host1 failed");
  CHECK(read["root"]["exit_code"] == 7);
  CHECK(read["root"]["signal"].is_null());
}

TEST_CASE("a node shows its workers' statistics, if it has reported them") {
  Table table;
  table.seal();
  table.hear(at_ten.now - 2s, b,
             link::Status{RoundNumber{1},
                          {{.local_rank = LocalRank{1},
                            .pid = 4711,
                            .state = WorkerState::running,
                            .since = 60s,
                            .step = 120,
                            .millisteps_per_second = 2500,
                            .last_beat = 250ms,
                            .resident_kib = 1024,
                            .cpu_percent = 99,
                            .last_line = "step 120",
                            .gpu = link::GpuUse{.index = 1, .used_mib = 3, .total_mib = 5}}}});
  const auto page = nodes_of(table.job, at_ten.now, {.nodes_max = 10});
  const auto read = json::parse(nodes_json(page, at_ten));
  CHECK(read["nodes"][0]["ranks"].empty());
  REQUIRE(read["nodes"][1]["ranks"].size() == 1);
  const auto& worker = read["nodes"][1]["ranks"][0];
  CHECK(worker["rank"] == 3);
  CHECK(worker["local_rank"] == 1);
  CHECK(worker["pid"] == 4711);
  CHECK(worker["state"] == "running");
  CHECK(worker["step"] == 120);
  CHECK(worker["steps_per_second"] == 2.5);
  CHECK(worker["samples"].is_null());
  CHECK(worker["beat_age"] == 2.25);
  CHECK(worker["resident_bytes"] == 1024 * 1024);
  CHECK(worker["cpu_percent"] == 99);
  CHECK(worker["words_age"].is_null());
  CHECK(worker["last_line"] == "step 120");
  CHECK(
      worker["gpu"] ==
      json{{"index", 1}, {"percent", nullptr}, {"used_bytes", 3 << 20}, {"total_bytes", 5 << 20}});
  const auto progress =
      json::parse(job_json(details_of(table.job, at_ten.now), at_ten))["progress"];
  CHECK(progress["step_min"] == 120);
  CHECK(progress["slowest"][0]["host"] == "host1");
  const auto bare = nodes_of(table.job, at_ten.now, {.nodes_max = 10, .with_ranks = false});
  CHECK(bare.nodes[1].ranks.empty());
}

TEST_CASE("a page of nodes has the state of each, and where the next page starts") {
  const Table table = failed_once();
  const auto read =
      json::parse(nodes_json(nodes_of(table.job, at_ten.now, {.nodes_max = 1}), at_ten));
  REQUIRE(read["nodes"].size() == 1);
  const auto& node = read["nodes"][0];
  CHECK(node["host"] == "host0");
  CHECK(node["node"] == 0);
  CHECK(node["state"] == "running");
  CHECK(node["since"] == 996.0);
  CHECK(node["hosts_coordinator"] == true);
  CHECK(node["silence"].is_null());
  CHECK(node["workers"] == 2);
  CHECK(node["base_rank"] == 0);
  CHECK(read["next"] == "0");
}

TEST_CASE("a rejection is JSON as well") {
  CHECK(json::parse(error_json("no \"job\""))["error"] == "no \"job\"");
}

}  // namespace snapshot_json_test
