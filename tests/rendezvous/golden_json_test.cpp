// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/coordinator/http_routes.h"
#include "rendezvous/etcd/election_view.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/status/status_json.h"
#include "tests/golden.h"
#include "tests/rendezvous/job/recorded_job.h"

namespace golden_json_test {

using namespace cpprun;
using namespace cpprun::testing;
using Json = nlohmann::json;

namespace {

const ClockPair moment{.now = TimePoint{1000h} + 1'234'567ns,
                       .wall = WallTime{std::chrono::hours{500'000} + 123'456us}};

std::string cbor(const Json& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

template <class Value, class Write>
std::string told(const Result<Value>& read, const Write& write) {
  return read ? write(*read) : read.error().reason;
}

// A job with everything that a status may show.
JobDetails some_details() {
  JobSnapshot job{.terms = {.id = "j\xff",
                            .nodes_min = 1,
                            .nodes_max = 4,
                            .restarts = recorded_join(0).restarts},
                  .state = JobState::draining,
                  .since = moment.now - 3s,
                  .round = RoundNumber{4},
                  .restarts_used = 2,
                  .restarts_left = 1,
                  .budgets_left = {1},
                  .lease = 3500ms,
                  .silence_max = 1500us,
                  .nodes = {1, 2, 3, 4, 5},
                  .world_size = 8};
  job.terms.restarts.window = 90s;
  job.terms.restarts.final_codes = {2, -11};
  job.terms.restarts.budgets.push_back({"node", {}});
  job.budgets_left.emplace_back();
  job.finish = link::Finish{.exit_code = 7, .reason = "failed", .root = recorded_failure};
  job.time.wall = 61'500'999us;
  for (std::size_t i = 0; i < account_count; ++i) job.time.nodes[i] = 1'500us * i;
  job.time.lost = {{.cause = "out_of_memory", .host = "beta", .count = 2, .time = job.time.nodes}};
  const WorkerSnapshot worker{.rank = Rank{3},
                              .figures = {.local_rank = LocalRank{1},
                                          .pid = 4711,
                                          .step = 9,
                                          .millisteps_per_second = 2501,
                                          .last_beat = 1234567us},
                              .at = moment.now - 1s};
  job.progress =
      JobProgress{.workers = 3,
                  .beating = 2,
                  .step_min = 9,
                  .step_max = 11,
                  .checkpoint_step = 8,
                  .total = 100,
                  .remaining = 1234ms,
                  .millisteps_per_second_min = 2501,
                  .beat_age_max = 1234567us,
                  .resident_kib_max = 77,
                  .told_ago_max = 2s,
                  .slowest = {{worker, GroupRank{1}, "host1"}, {{}, GroupRank{}, ""}},
                  .metrics = {{{"loss", 0.5}, Rank{0}}, {{"lr", std::nullopt}, Rank{1}}}};
  const JobRecord record = recorded_job(moment.now);
  return {.job = job,
          .waits_for = "it waits",
          .cover = "nothing",
          .durable = true,
          .warnings = {"one", "two"},
          .rounds = {record.history.first.begin(), record.history.first.end()},
          .rounds_left_out = 5};
}

std::vector<NodeSnapshot> some_nodes() {
  const WorkerSnapshot worker{
      .rank = Rank{3},
      .figures = {.local_rank = LocalRank{1},
                  .pid = 4711,
                  .state = WorkerState::running,
                  .since = 60s,
                  .step = 120,
                  .millisteps_per_second = 2500,
                  .samples = 7,
                  .checkpoint_step = 100,
                  .last_beat = 250'999us,
                  .total = 1000,
                  .metrics = {{"loss", 0.5}, {"lr", std::nullopt}},
                  .resident_kib = 1024,
                  .cpu_percent = 99,
                  .last_words = 3s,
                  .last_line = "step 120",
                  .gpu = link::GpuUse{.index = 1, .percent = 70, .used_mib = 3, .total_mib = 5}},
      .at = moment.now - 2s};
  WorkerSnapshot bare{.figures = {.gpu = link::GpuUse{}}};
  return {{.host = "a",
           .node = GroupRank{1},
           .state = Member::State::running,
           .since = moment.now - 9s,
           .silence = 12ms,
           .connected = false,
           .leaving = true,
           .local = true,
           .pid = 12,
           .workers = 2,
           .base_rank = Rank{2},
           .role = "r",
           .ranks = {worker, bare, {}}},
          {.host = "b"}};
}

DaemonSnapshot some_daemon() {
  return {.name = "a",
          .place = "a:29400",
          .version = "1.2",
          .has_etcd = true,
          .leads = true,
          .epoch = 12,
          .since = moment.wall - 7s,
          .leader = "a",
          .leader_address = "a:29400",
          .standbys = {{.name = "b", .place = "b:29400", .version = "1.3", .bytes_behind = 9}},
          .durable = true,
          .is_synced = true,
          .trouble = "t",
          .changes = 2,
          .last_change = LeaderChange{.time = moment.wall - 7s,
                                      .from = "b",
                                      .from_place = "b:29400",
                                      .to = "a",
                                      .to_place = "a:29400",
                                      .epoch = 12,
                                      .reason = "r",
                                      .silence = 12'345'678ns}};
}

std::vector<coordinator::Action> all_actions() {
  using coordinator::NodeChange;
  const auto command = [](OperatorCommand::Kind kind, int signal, Duration length) {
    return coordinator::Answered{1,
                                 {.kind = kind,
                                  .whom = signal ? "" : "n",
                                  .signal = signal,
                                  .length = length,
                                  .by = "uid 7"},
                                 {CommandResult::Kind::not_now, "no"}};
  };
  const auto say = [](const link::Message& message) {
    return coordinator::Say{LinkId{1}, message};
  };
  return {NodeChange{.kind = NodeChange::Kind::joined, .host = "b\xff"},
          NodeChange{NodeChange::Kind::lost, "b", GroupRank{1}, "silent"},
          NodeChange{NodeChange::Kind::left, "b", GroupRank{1}, "asked"},
          coordinator::Note{"a note"},
          command(OperatorCommand::Kind::save, 10, {}),
          command(OperatorCommand::Kind::exclude, 0, 90s),
          say(link::Sealed{.round = RoundNumber{4}, .restart_count = 1, .world_size = 16}),
          say(link::Drain{.round = RoundNumber{4}, .reason = "rank 1 failed"}),
          say(link::Drain{.round = RoundNumber{4}, .reason = "again"}),
          say(link::Finish{.exit_code = 3, .reason = "r", .root = recorded_failure}),
          coordinator::CloseStore{"j", "over"},
          say(link::Finish{.reason = "no root"}),
          say(link::Heartbeat{})};
}

}  // namespace

TEST_CASE("the bytes of a job's record and their errors are those of earlier versions") {
  Golden golden("records");
  const JobRecord record = recorded_job(moment.now);
  JobRecord least{.nodes = {{.join = recorded_join(0)}}};
  const auto write = [](const JobRecord& read) { return job_record_bytes(read, moment); };
  for (const auto& each : {record, least}) {
    const auto bytes = write(each);
    golden.add("record", bytes);
    golden.add("record changed", outcomes_of(Json::from_cbor(bytes), [&](const Json& changed) {
                 return told(read_job_record(cbor(changed), moment), write);
               }));
  }
  const std::vector<Exclusions::Entry> hosts = {{"bad", moment.now + 60s, "ann"},
                                                {"worse", moment.now + 90s, "ann"}};
  const auto write_hosts = [](const auto& read) { return hosts_record_bytes(read, moment); };
  golden.add("hosts", write_hosts(hosts));
  golden.add("hosts changed",
             outcomes_of(Json::from_cbor(write_hosts(hosts)), [&](const Json& changed) {
               return told(read_hosts_record(cbor(changed), moment), write_hosts);
             }));
  const auto write_state = [](const RestartState& read) {
    return restart_state_json(read, "j", moment);
  };
  const auto state = write_state(record.restarts);
  golden.add("restart state", state);
  golden.add("restart state changed", outcomes_of(Json::parse(state), [&](const Json& changed) {
               return told(read_restart_state(changed.dump(), "j", moment), write_state);
             }));
  golden.check();
}

TEST_CASE("the JSON of jobs, nodes, daemons and their events is that of earlier versions") {
  Golden golden("status");
  const JobDetails details = some_details();
  const Viewer viewer{"http://x", true, {"train", "ann", "/logs"}};
  golden.add("jobs", jobs_json({details.job, {}}, "j", moment, viewer));
  golden.add("no jobs", jobs_json({}, std::nullopt, moment));
  golden.add("job", job_json(details, moment, viewer));
  golden.add("least job", job_json({.rounds = {RoundRecord{}}}, moment));
  golden.add("nodes", nodes_json({some_nodes(), NodePosition{GroupRank{1}, LinkId{2}}}, moment));
  golden.add("no nodes", nodes_json({}, moment));
  golden.add("error", error_json("no \"job\" \xff"));
  golden.add("daemon", daemon_json(some_daemon(), moment));
  golden.add("least daemon", daemon_json({}, moment));
  golden.add("leader changed", leader_changed_line(*some_daemon().last_change, "h"));
  golden.add("least leader changed", leader_changed_line({}, ""));
  golden.add("failure", shown_failure(recorded_failure).dump());
  JobEvents events("head");
  for (const auto& action : all_actions()) {
    golden.add("event", events.line(moment.wall, "j", action).value_or("none"));
  }
  golden.add("command done", outcome_json({CommandResult::Kind::done, "it ends \xff", {"a", "b"}}));
  golden.add("command rejected", outcome_json({CommandResult::Kind::unknown, "no such node"}));
  for (const char* const kind : {"stop", "save", "drain", "exclude", "include"}) {
    const Json body = {{"reason", "r"}, {"signal", "SIGUSR2"}, {"node", "3"}, {"for_s", 9}};
    for (const auto& [key, value] : body.items()) {
      golden.add(std::string(kind) + " with " + key,
                 outcomes_of({{key, value}}, [&kind](const Json& changed) {
                   OperatorCommand command{.kind = *command_kind(kind)};
                   const auto read = read_command(changed.dump(), command);
                   return read ? text_of(command) + std::to_string(command.length.count())
                               : read.error().reason;
                 }));
    }
  }
  golden.check();
}

TEST_CASE("the values of an election in etcd are those of earlier versions") {
  Golden golden("election");
  const auto write = [](const auto& read) { return to_json(read); };
  const LeaderCard card{"a\xff", "card"};
  golden.add("leader", to_json(card));
  golden.add("leader changed", outcomes_of(Json::parse(to_json(card)), [&](const Json& changed) {
               return told(read_leader_card(changed.dump()), write);
             }));
  const Synced synced{.names = {"a", "b"},
                      .before = {{"c"}},
                      .epoch = 7,
                      .term = 3,
                      .ttl = 2500ms,
                      .is_vacant = true,
                      .successor = "b"};
  for (const auto& each : {synced, Synced{.names = {"a"}}}) {
    golden.add("synced", to_json(each));
    golden.add("synced changed", outcomes_of(Json::parse(to_json(each)), [&](const Json& changed) {
                 return told(read_synced(changed.dump()), write);
               }));
  }
  golden.check();
}

}  // namespace golden_json_test
