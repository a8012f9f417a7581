// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "launcher/control/policy_replay.h"
#include "launcher/control/views.h"
#include "launcher/doctor/findings.h"
#include "launcher/failure/evidence.h"
#include "launcher/fanout/message.h"
#include "launcher/preview/preview.h"
#include "launcher/report/report.h"
#include "launcher/report/report_json.h"
#include "tests/golden.h"
#include "tests/launcher/failure/diagnosed.h"

namespace launcher_golden_json_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

const link::Failure some_failure{.rank = Rank{3},
                                 .local_rank = LocalRank{1},
                                 .group_rank = GroupRank{2},
                                 .host = "node-b",
                                 .pid = 4711,
                                 .status = {.signalled = true, .value = 11},
                                 .time = WallTime{1'700'000'000'123'456us},
                                 .message = "was killed by \xff SIGSEGV",
                                 .cause = "segfault"};

Evidence some_evidence(int rank) {
  Evidence evidence{.executable = "./train",
                    .error_text = R"({"message": "E: bad"})",
                    .error_file = "/logs/error.json",
                    .last_lines = {"Traceback", "ValueError: bad"},
                    .stdout_file = "/logs/1/stdout.log",
                    .stderr_file = "/logs/1/stderr.log",
                    .host_facts = {.kernel_lines = {"a line"}, .last_seen = "was in state D"}};
  evidence.outcome.local_rank = LocalRank{rank};
  evidence.outcome.rank = Rank{rank};
  evidence.outcome.pid = 100 + rank;
  evidence.outcome.status = {false, 1};
  return evidence;
}

ReportFacts some_report() {
  ReportFacts facts{.job = "job7",
                    .program = {"/usr/bin/python3", "train.py"},
                    .interpreter = "/usr/bin/python3",
                    .host = "node0",
                    .pid = 12,
                    .exit_code = 1,
                    .restarts = 2,
                    .started = WallTime{1'700'000'000'123'456us},
                    .ended = WallTime{1'700'000'001'123'456us},
                    .ends = {diagnosed(some_evidence(0)), diagnosed(some_evidence(1))},
                    .consequences = {{Rank{1}, GroupRank{0}, {true, 6}}, {Rank{2}}},
                    .consequence_count = 7,
                    .time = TimeUse{.wall = 61'500'999us},
                    .reason = "rank 1 failed\n  hint: look",
                    .logs = "/logs"};
  facts.root = failure_of(facts.ends.back(), GroupRank{0}, "node0");
  facts.attempts.begin(WallTime{5s}, {.round = RoundNumber{1}, .restart_count = 1});
  facts.attempts.draining("r");
  facts.attempts.failed(some_failure);
  facts.attempts.begin(WallTime{6s}, {.round = RoundNumber{2}, .restart_count = 2});
  facts.leader_changes.push_back({WallTime{9s}, {{"a", 29400}, {"b", 29400}, 7, 12'345'678ns}});
  facts.leader_changes_left_out = 2;
  return facts;
}

std::vector<events::Event> all_events() {
  using Kind = coordinator::NodeChange::Kind;
  const auto change = [](Kind kind, std::optional<GroupRank> rank = {}) {
    return events::NodeChange{.kind = kind, .host = "node2", .rank = rank, .reason = "silent"};
  };
  const OperatorCommand save{.kind = OperatorCommand::Kind::save, .signal = 10, .by = "uid 0"};
  const OperatorCommand exclude{
      .kind = OperatorCommand::Kind::exclude, .whom = "n", .length = 2h, .reason = "it smells"};
  return {events::JobStarted{{"a", "\xff"}, 1, 2, 3},
          events::Waiting{"1 of 2 nodes"},
          events::RoundSealed{{.round = RoundNumber{2},
                               .restart_count = 1,
                               .group_rank = GroupRank{1},
                               .group_world_size = 2,
                               .base_rank = Rank{4},
                               .world_size = 8}},
          events::WorkerStarted{Rank{1}, LocalRank{2}, 3},
          events::WorkerNotStarted{Rank{1}, LocalRank{2}, "r"},
          events::WorkerExited{Rank{1}, LocalRank{2}, 3, {true, 11}},
          events::WorkerExited{Rank{1}, LocalRank{2}, 3, {false, 7}},
          events::WorkerFailed{some_failure, diagnosed(some_evidence(0))},
          events::Draining{"r", 15},
          events::WorkerKilled{LocalRank{1}, "was in state D", {}},
          events::CoordinatorNoted{"a note"},
          change(Kind::joined),
          change(Kind::lost, GroupRank{2}),
          change(Kind::left),
          events::Answered{7, save, {CommandResult::Kind::done, "saved"}},
          events::Answered{7, exclude, {CommandResult::Kind::not_now, "no"}},
          events::LeaseNearlyMissed{2500ms, 3s},
          events::LeaderChanged{{"a", 29400}, {"b", 29400}, 7, 1900ms},
          events::AgentUpgraded{"0.1.0", "0.2.0", 5ms},
          events::EventsLost{5},
          events::JobEnded{1, "r\n  hint: h", some_failure},
          events::JobEnded{}};
}

HostFacts some_facts() {
  return {.host = "h1",
          .version = "1",
          .cpprun = "cpprun 1",
          .network = "boot net",
          .gpus = {8, 7, 6},
          .missing_gpus = "7 of 8",
          .has_infiniband = true,
          .limits = {.open_files = 1024, .processes = 5},
          .shared_memory = {"/dev/shm", 10, 9, ""},
          .temporary = {"/tmp\xff", 8, 7, "read-only"},
          .asked = WallTime{17us},
          .answered = WallTime{18us},
          .port = 4000,
          .why_no_port = "why",
          .greeting = "word\n"};
}

std::vector<doctor::Dialed> some_dialed() {
  return {{1, {"::1", "10.0.0.1"}, "", doctor::Reached::silent, "10.0.0.1:4000", "no answer"},
          {.why_unresolved = "no name", .reached = doctor::Reached::unresolved}};
}

Preview some_preview() {
  const PreviewWorker worker{.local_rank = 0,
                             .rank = 4,
                             .command = {"./train", "it's\n\xff"},
                             .variables = {{"RANK", "4"}, {"MASTER_PORT", std::nullopt}},
                             .gpu = "GPU-1",
                             .cpus = "0-3"};
  const PreviewNode node{.host = "gpu1",
                         .name = "me@gpu1",
                         .group_rank = 1,
                         .address = "10.0.0.1",
                         .interface = "eth0",
                         .hosting = "here",
                         .directory = "/work",
                         .interpreter = "/usr/bin/python3",
                         .gpus = 7,
                         .gpus_there = 8,
                         .role = "default",
                         .workers = {worker, {}},
                         .inherited = {{"NCCL_DEBUG", "INFO"}},
                         .notes = {"a note"}};
  return {.version = "1",
          .job = "j",
          .meeting = "static",
          .master_host = "10.0.0.1",
          .master_port = 29500,
          .places = {"a:1"},
          .etcd = {"http://a:2379"},
          .nodes_min = 1,
          .nodes_max = 2,
          .store = "direct",
          .has_secret = true,
          .log_directory = "/logs",
          .nodes = {node, {}}};
}

// The outcome of reading: the value, written again.
template <class Value, class Write>
std::string told(const Result<Value>& read, const Write& write) {
  return read ? write(*read) : read.error().reason;
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

TEST_CASE("the JSON of events, reports and failures is that of earlier versions") {
  Golden golden("events");
  EventLog log({.job = "job7", .host = "node1", .executable = "./train"});
  for (const auto& event : all_events())
    golden.add("event", log.line(WallTime{1'234'567us}, event));
  golden.add("failure",
             to_json(some_failure, "./train").dump(1, ' ', true, Json::error_handler_t::replace));
  ReportFacts facts = some_report();
  golden.add("report", report_json(facts));
  facts.root = some_failure;
  facts.running = true;
  facts.time.reset();
  golden.add("report with a root elsewhere", report_json(facts));
  golden.add("least report", report_json({}));
  golden.check();
}

TEST_CASE("the JSON that hosts and consoles exchange, and its errors, are those of earlier ones") {
  Golden golden("hosts");
  const auto write = [](const auto& read) { return to_json(read); };
  const auto add = [&](const std::string& name, const std::string& text, const auto& read) {
    golden.add(name, text);
    golden.add(name + " changed", outcomes_of(Json::parse(text), [&](const Json& changed) {
                 return told(read(text_of(changed)), write);
               }));
  };
  const auto read_question = [](std::string_view text) { return doctor::read_question(text); };
  add("ask facts", to_json(doctor::Question{doctor::AskFacts{29500}}), read_question);
  add("ask dial",
      to_json(doctor::Question{doctor::AskDial{{{2, "h2", "10.0.0.2", 4000, "word\n"}, {}}}}),
      read_question);
  const auto read_reading = [](std::string_view text) { return doctor::read_reading(text); };
  add("facts", to_json(doctor::Reading{some_facts()}), read_reading);
  add("least facts", to_json(doctor::Reading{HostFacts{}}), read_reading);
  add("dialed", to_json(doctor::Reading{some_dialed()}), read_reading);
  const auto read_a_preview = [](std::string_view text) { return read_preview(text); };
  add("preview", to_json(some_preview()), read_a_preview);
  add("least preview", to_json(Preview{}), read_a_preview);
  const doctor::ExaminedHost host{.member = {0, "h1", 0},
                                  .address = "10.0.0.1",
                                  .facts = some_facts(),
                                  .clock = doctor::ClockOffset{-1500ms, 1ms},
                                  .dialed = some_dialed()};
  golden.add("doctor", doctor::doctor_json({host, {.member = {1, "h2", 0}, .gone = "refused"}},
                                           {{"h2", "what", "do this"}}));
  golden.add("empty doctor", doctor::doctor_json({}, {}));
  golden.check();
}

TEST_CASE("the messages of the fan-out are those of earlier versions") {
  using namespace fanout;
  Golden golden("fanout");
  const JobTerms terms{.flags = {"--role=a b", ""},
                       .program = {"train.py", "it's\n"},
                       .environment = {{"A", std::string("\0\xff=", 3)}},
                       .directory = "/a directory",
                       .secrets = "cpprun1:x:00",
                       .nodes = "2:3",
                       .elastic = true,
                       .conf = "a=b",
                       .grace_milliseconds = 30'000,
                       .is_rehearsal = true};
  for (const Down& each : std::initializer_list<Down>{
           Terms{{3, "gpu3", 4}, terms}, Terms{}, Begin{1, "a", 2}, Stop{15}, Ping{}, Ask{"?"}}) {
    golden.add("down", encode(each));
  }
  for (const Up& each :
       std::initializer_list<Up>{Here{"10.0.0.1", 4000}, Gone{"refused"}, Words{true, "half \xc3"},
                                 Ended{143, true}, Pong{}, Answer{"{}"}}) {
    golden.add("up", encode(each));
  }
  const std::string bytes = encode(Down{Terms{{3, "gpu3", 4}, {}}});
  golden.add("terms changed",
             outcomes_of(Json::from_cbor(bytes.substr(5)), [&](const Json& changed) {
               std::string body;
               Json::to_cbor(changed, body);
               std::string frame = {static_cast<char>(body.size() & 0xFF),
                                    static_cast<char>(body.size() >> 8), 0, 0, bytes[4]};
               frame += body;
               return told(take_down(frame), [](const auto& read) { return encode(*read); });
             }));
  golden.check();
}

TEST_CASE("the JSON of a policy and of error files is that of earlier versions") {
  Golden golden("policy");
  const auto trace = R"({"at": 60, "cause": "hung", "host": "n7", "rank": 3, "signal": "SIGKILL"}
{"at": 200, "cause": "node_lost", "host": "n8"}
{"at": 300, "cause": "segfault", "host": "n7", "exit_code": 3, "life": 5, "step": 9}
{"at": 400, "cause": "segfault", "host": "n9"})";
  const auto write = [](const PolicyTrace& read) {
    return replay_json(replay({.max = 1, .host_limit = {2, {}}}, read));
  };
  golden.add("replay", told(read_policy_trace(trace, ""), write));
  const auto read = [&](const Json& changed) {
    return told(read_policy_trace(text_of(changed), ""), write);
  };
  golden.add("failure changed", outcomes_of({{"at", 60},
                                             {"cause", "hung"},
                                             {"rank", 3},
                                             {"exit_code", 1},
                                             {"host", "h"},
                                             {"signal", "SIGINT"},
                                             {"life", 5}},
                                            read));
  golden.add("event changed",
             outcomes_of({{"time", 60},
                          {"event", "worker_failed"},
                          {"round", 1},
                          {"job", "j"},
                          {"failure", {{"rank", 1}, {"cause", "hung"}, {"time", 50}}}},
                         read));
  golden.add("report changed", outcomes_of(Json::parse(report_json(some_report())), read));
  const Json error = {
      {"message",
       {{"message", "E: bad"}, {"extraInfo", {{"py_callstack", "f"}, {"timestamp", "17"}}}}}};
  const auto read_error = [](const Json& changed) {
    return told(parse_error_file(text_of(changed)),
                [](const WorkerError& each) {
                  return fmt::format("{} {} {}", each.message, each.traceback,
                                     each.unix_seconds.value_or(-1));
                }) +
           told(with_exit_code(text_of(changed), 3), [](const auto& text) { return text; });
  };
  golden.add("error changed", outcomes_of(error, read_error));
  golden.add("flat error changed", outcomes_of({{"message", "E"}, {"timestamp", 17}}, read_error));
  golden.check();
}

}  // namespace launcher_golden_json_test
