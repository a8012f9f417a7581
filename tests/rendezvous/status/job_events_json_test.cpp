// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace job_events_json_test {

using namespace cpprun;
using nlohmann::json;

namespace {

const WallTime then{std::chrono::seconds(5)};

struct Daemon {
  JobEvents events{"head"};
  json tell(const coordinator::Action& action, const std::string& job = "a") {
    const auto line = events.line(then, job, action);
    return line ? json::parse(*line) : json();
  }
  json say(const link::Message& message, const std::string& job = "a") {
    return tell(coordinator::Say{LinkId{1}, message}, job);
  }
};

}  // namespace

TEST_CASE("a round, its end and the job's end are reported once, however many nodes receive them") {
  Daemon daemon;
  link::Sealed sealed;
  sealed.round = RoundNumber{4};
  sealed.group_world_size = 2;
  sealed.world_size = 16;
  sealed.restart_count = 1;
  CHECK(daemon.say(sealed) == json{{"time", 5.0},
                                   {"event", "round_sealed"},
                                   {"job", "a"},
                                   {"host", "head"},
                                   {"node", nullptr},
                                   {"round", 4},
                                   {"restart", 1},
                                   {"nodes", 2},
                                   {"world_size", 16},
                                   {"base_rank", nullptr}});
  CHECK(daemon.say(sealed).is_null());
  CHECK(daemon.say(sealed, "b")["job"] == "b");
  const link::Drain drain{.round = RoundNumber{4}, .reason = "rank 1 failed"};
  CHECK(daemon.say(drain)["reason"] == "rank 1 failed");
  CHECK(daemon.say(drain).is_null());
  link::Finish finish;
  finish.exit_code = 3;
  finish.reason = "rank 1 failed";
  finish.root = link::Failure{.rank = Rank{1}, .host = "beta"};
  const json end = daemon.say(finish);
  CHECK(end["event"] == "job_ended");
  CHECK(end["exit_code"] == 3);
  CHECK(end["root"]["host"] == "beta");
  CHECK(end["round"] == 4);
  CHECK(daemon.say(finish).is_null());
}

TEST_CASE("each verdict about a round is reported once") {
  Daemon daemon;
  link::Verdict verdict{.round = RoundNumber{4}, .number = 1, .is_timeout = true};
  const json timeout = daemon.say(verdict);
  CHECK(timeout["event"] == "job_hung");
  CHECK(timeout["timeout"] == true);
  CHECK(daemon.say(verdict).is_null());
  verdict = {.round = RoundNumber{4}, .number = 2};
  CHECK(daemon.say(verdict)["timeout"] == false);
}

TEST_CASE("a job that is forgotten may be started again under its name") {
  Daemon daemon;
  link::Finish finish;
  CHECK_FALSE(daemon.say(finish).is_null());
  CHECK(daemon.tell(coordinator::CloseStore{"a", "the job is over"}).is_null());
  CHECK_FALSE(daemon.say(finish).is_null());
}

TEST_CASE("joins, leaves and log lines are events") {
  Daemon daemon;
  using Kind = coordinator::NodeChange::Kind;
  CHECK(daemon.tell(coordinator::NodeChange{.kind = Kind::joined, .host = "beta"}) ==
        json{{"time", 5.0},
             {"event", "node_joined"},
             {"job", "a"},
             {"host", "head"},
             {"node", nullptr},
             {"round", 0},
             {"changed_host", "beta"},
             {"changed_node", nullptr}});
  const json lost = daemon.tell(coordinator::NodeChange{
      .kind = Kind::lost, .host = "beta", .rank = GroupRank{1}, .reason = "silent"});
  CHECK(lost["event"] == "node_lost");
  CHECK(lost["changed_node"] == 1);
  CHECK(lost["reason"] == "silent");
  CHECK(daemon.tell(coordinator::NodeChange{.kind = Kind::left})["event"] == "node_left");
  CHECK(daemon.tell(coordinator::Note{"it \xff waits"})["text"] == "it \xEF\xBF\xBD waits");
}

TEST_CASE("a command is an event with its result") {
  Daemon daemon;
  const OperatorCommand command{
      .kind = OperatorCommand::Kind::drain, .job = "a", .whom = "3", .by = "uid 7"};
  const json event = daemon.tell(
      coordinator::Answered{1, command, {CommandResult::Kind::unknown, "there is no node 3"}});
  CHECK(event["event"] == "order");
  CHECK(event["order"] == "drain");
  CHECK(event["by"] == "uid 7");
  CHECK(event["whom"] == "3");
  CHECK(event["signal"].is_null());
  CHECK(event["outcome"] == "unknown");
  CHECK(event["said"] == "there is no node 3");
}

TEST_CASE("messages that concern only the nodes are not events") {
  Daemon daemon;
  CHECK(daemon.say(link::Heartbeat{}).is_null());
  CHECK(daemon.tell(coordinator::ResetStore{"a", "r"}).is_null());
  CHECK(daemon.tell(coordinator::OpenStore{"a"}).is_null());
}

}  // namespace job_events_json_test
