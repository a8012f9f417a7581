// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "launcher/report/report_json.h"
#include "tests/launcher/failure/diagnosed.h"

namespace event_log_json_test {

using namespace cpprun;

namespace {

constexpr WallTime then{std::chrono::milliseconds(1'795'262'400'250)};

nlohmann::json event(EventLog& event_log, const events::Event& what) {
  const auto line = event_log.line(then, what);
  REQUIRE(line.find('\n') == line.size() - 1);
  return nlohmann::json::parse(line);
}

EventLog event_log_of_node() {
  return EventLog({.job = "job7", .host = "node1", .executable = "./train"});
}

std::set<std::string> members(const nlohmann::json& json) {
  std::set<std::string> names;
  for (const auto& [name, value] : json.items()) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("every line has a time, an event, a job and a host") {
  auto event_log = event_log_of_node();
  const auto json = event(event_log, events::Waiting{"1 of 2 nodes have joined"});
  CHECK(json.at("time") == 1795262400.25);
  CHECK(json.at("event") == "waiting");
  CHECK(json.at("job") == "job7");
  CHECK(json.at("host") == "node1");
  CHECK(json.at("node") == 0);
  CHECK(json.at("round") == 0);
  CHECK(json.at("reason") == "1 of 2 nodes have joined");
}

TEST_CASE("after a round is sealed, lines have its number and this node's rank") {
  auto event_log = event_log_of_node();
  event(event_log, events::RoundSealed{{.round = RoundNumber{2},
                                        .restart_count = 1,
                                        .group_rank = GroupRank{1},
                                        .group_world_size = 2,
                                        .base_rank = Rank{4},
                                        .world_size = 8}});
  const auto json = event(event_log, events::WorkerExited{Rank{5}, LocalRank{1}, 42, {true, 11}});
  CHECK(json.at("round") == 2);
  CHECK(json.at("node") == 1);
  CHECK(json.at("rank") == 5);
  CHECK(json.at("exit_code") == 139);
  CHECK(json.at("signal") == "SIGSEGV");
}

TEST_CASE("the line of a failed worker contains the verdict") {
  auto event_log = event_log_of_node();
  const link::Failure failure{.rank = Rank{1}, .status = {false, 1}, .cause = "disk_full"};
  const auto json = event(event_log, events::WorkerFailed{failure, testing::diagnosed({})});
  CHECK(json.at("failure").at("rank") == 1);
  CHECK(json.at("failure").at("cause") == "disk_full");
  CHECK(json.at("failure").at("consequence") == false);
}

using Kind = coordinator::NodeChange::Kind;

events::Event change(Kind kind, std::optional<GroupRank> rank = {}) {
  return events::NodeChange{.kind = kind, .host = "node2", .rank = rank, .reason = "silent"};
}

TEST_CASE("the lost node is named apart from the node that reports it") {
  auto event_log = event_log_of_node();
  const auto json = event(event_log, change(Kind::lost, GroupRank{2}));
  CHECK(json.at("event") == "node_lost");
  CHECK(json.at("host") == "node1");
  CHECK(json.at("changed_host") == "node2");
  CHECK(json.at("changed_node") == 2);
  CHECK(json.at("reason") == "silent");
  CHECK(event(event_log, change(Kind::joined)).at("changed_node").is_null());
}

// The members that docs/events.md lists for an event: the second column of its row.
std::set<std::string> documented(const std::string& event) {
  const char* const directory = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  REQUIRE(directory != nullptr);
  std::ifstream page(std::string(directory) + "/docs/events.md");
  std::set<std::string> names;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `" + event + "` |")) continue;
    const auto begin = line.find('|', 1) + 1;
    std::istringstream column(line.substr(begin, line.find('|', begin) - begin));
    for (std::string word; column >> word;) names.insert(word.substr(1, word.size() - 2));
  }
  return names;
}

TEST_CASE("each event has exactly the members that docs/events.md lists") {
  auto event_log = event_log_of_node();
  const std::set<std::string> common = {"time", "event", "job", "host", "node", "round"};
  const std::vector<events::Event> all = {
      events::JobStarted{},       events::RoundSealed{},
      events::WorkerStarted{},    events::WorkerExited{},
      events::WorkerNotStarted{}, events::WorkerFailed{{}, testing::diagnosed({})},
      events::Draining{},         events::WorkerKilled{},
      events::Waiting{},          events::CoordinatorNoted{},
      events::JobEnded{},         change(Kind::joined),
      change(Kind::lost),         change(Kind::left),
      events::EventsLost{},       events::LeaseNearlyMissed{},
      events::LeaderChanged{},    events::Answered{},
      events::HangFound{},        events::WorkerRestarting{},
      events::AgentUpgraded{}};
  // One alternative has three event names. Three are not for the event file.
  CHECK(all.size() == std::variant_size_v<events::Event> + 2 - 3);
  for (const events::Event& each :
       {events::Event{events::Note{}}, {events::FirstFailure{}}, {events::RoundJudged{}}}) {
    CHECK_FALSE(is_logged(each));
  }
  for (const auto& each : all) {
    CHECK(is_logged(each));
    const auto json = event(event_log, each);
    auto names = members(json);
    for (const auto& name : common) CHECK(names.erase(name) == 1);
    CAPTURE(json.at("event"));
    CHECK(names == documented(json.at("event").get<std::string>()));
  }
}

TEST_CASE("a near miss of the lease has its duration, in seconds") {
  auto event_log = event_log_of_node();
  const auto json = event(event_log, events::LeaseNearlyMissed{std::chrono::milliseconds(2500),
                                                               std::chrono::seconds(3)});
  CHECK(json.at("event") == "lease_nearly_missed");
  CHECK(json.at("silence") == 2.5);
  CHECK(json.at("lease") == 3.0);
}

TEST_CASE("a change of leader has both leaders, and the time without one") {
  auto event_log = event_log_of_node();
  const auto json =
      event(event_log,
            events::LeaderChanged{{"a", 29400}, {"b", 29400}, 7, std::chrono::milliseconds(1900)});
  CHECK(json.at("event") == "leader_changed");
  CHECK(json.at("from") == "a:29400");
  CHECK(json.at("to") == "b:29400");
  CHECK(json.at("epoch") == 7);
  CHECK(json.at("silence") == 1.9);
}

TEST_CASE("a command has its author, its reason and its outcome") {
  auto event_log = event_log_of_node();
  const OperatorCommand command{.kind = OperatorCommand::Kind::exclude,
                                .whom = "node7",
                                .length = std::chrono::hours(2),
                                .reason = "it smells",
                                .by = "uid 0 (root)"};
  const auto json = event(
      event_log, events::Answered{7, command, {CommandResult::Kind::not_now, "start another"}});
  CHECK(json.at("event") == "order");
  CHECK(json.at("order") == "exclude");
  CHECK(json.at("by") == "uid 0 (root)");
  CHECK(json.at("reason") == "it smells");
  CHECK(json.at("whom") == "node7");
  CHECK(json.at("for_s") == 7200.0);
  CHECK(json.at("signal").is_null());
  CHECK(json.at("outcome") == "not_now");
  CHECK(json.at("said") == "start another");
}

}  // namespace event_log_json_test
