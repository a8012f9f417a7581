// SPDX-License-Identifier: BSD-3-Clause
// docs/openapi.json describes the HTTP API, and these tests check both directions: the server has
// every path, parameter and status in the file and no others, and real answers have the members and
// types of its schemas and no others.

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "rendezvous/coordinator/http_routes.h"
#include "rendezvous/hang/evidence_json.h"
#include "rendezvous/status/event_ring.h"
#include "rendezvous/status/status_json.h"
#include "tests/rendezvous/coordinator/schema.h"
#include "tests/rendezvous/job/job_table.h"

namespace openapi_test {

using namespace cpprun;
using namespace cpprun::testing;
using nlohmann::json;

namespace {

using Words = std::set<std::string>;

const ClockPair later{.now = t0 + 10s, .wall = WallTime{} + 1000s};
constexpr std::uint32_t own = 1000;

json document() {
  const char* const directory = std::getenv("CPPRUN_SOURCE_DIRECTORY");
  REQUIRE(directory != nullptr);
  std::ifstream file(std::string(directory) + "/docs/openapi.json");
  return json::parse(file);
}

std::string filled(std::string path) {
  for (const std::string_view name : {"{id}", "{host}"}) {
    if (const auto at = path.find(name); at != std::string::npos)
      path.replace(at, name.size(), "j");
  }
  return path;
}

Words keys_of(const json& object) {
  Words keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

// The file's entry for each path that has that method.
std::map<std::string, json> operations(const json& file, const char* method) {
  std::map<std::string, json> found;
  for (const auto& [path, item] : file["paths"].items()) {
    if (item.contains(method)) found[path] = item[method];
  }
  return found;
}

Words paths_of(const std::map<std::string, json>& operations) {
  Words paths;
  for (const auto& [path, operation] : operations) paths.insert(path);
  return paths;
}

Coordinator with_job() {
  Coordinator daemon{{.only = {}, .options = {.lease = 3s, .status_interval = 5s}}};
  daemon.handle(t0, Coordinator::Opened{{.link = a, .peer = "10.0.0.1"}});
  daemon.handle(t0, Coordinator::Said{a, node(0)});
  daemon.handle(t0, Coordinator::StoreReady{"j", 7});
  return daemon;
}

http::Response get(const http::Request& request) {
  static const Coordinator daemon = with_job();
  if (asks_for_events(request)) return events_answer(EventRing("run"), request);
  return answer(daemon, {}, later, request, {}, DaemonSnapshot{.name = "a", .leads = true});
}

http::Request post(const std::string& path, const json& body) {
  return {.method = http::Method::post,
          .target = filled(path),
          .body = body.dump(),
          .content_type = "application/json"};
}

// 200: the request is a command.
unsigned status_of(const http::Request& request) {
  const HostNames names;
  const auto taken = order_of(request, {.by_loopback = true, .user = own}, {names, own});
  const auto* const refused = std::get_if<http::Response>(&taken);
  return refused == nullptr ? 200 : refused->status;
}

const json& schema_of_body(const json& file, const json& operation) {
  const json& content = operation["requestBody"]["content"]["application/json"];
  return file["components"]["schemas"][content["schema"]["$ref"].get<std::string>().substr(21)];
}

// Its required members.
json least_body(const json& schema) {
  json body = json::object();
  for (const json& key : schema.value("required", json::array())) {
    body[key.get<std::string>()] = schema["properties"][key.get<std::string>()]["example"];
  }
  return body;
}

Table failed_once() {
  Table table(
      JobTerms{.id = "j",
               .nodes_min = 2,
               .nodes_max = 2,
               .restarts = {.max = 3, .budgets = {{"hang", 1}, {"node", {}}}, .final_codes = {7}}});
  table.seal();
  table.hear(t0 + 4s, b,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{3}, .pid = 7, .status = {true, 9}}});
  table.hear(t0 + 4s, a,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{0}, .pid = 8, .status = {true, 9}}});
  table.drained(t0 + 6s, 1, {a, b});
  table.hear(t0 + 6s, a, link::Upgraded{.number = 1, .version = "0.2.0", .took = 3ms});
  table.hear(t0 + 6s, b, link::Upgraded{.number = 2, .version = "0.1.0", .error = "no file"});
  const link::WorkerStats reported{.local_rank = LocalRank{0},
                                   .pid = 70,
                                   .state = WorkerState::running,
                                   .step = 5,
                                   .millisteps_per_second = 900,
                                   .samples = 80,
                                   .checkpoint_step = 4,
                                   .last_beat = 1s,
                                   .total = 9,
                                   .metrics = {{"loss", 0.5}, {"lr", {}}},
                                   .resident_kib = 9,
                                   .cpu_percent = 99,
                                   .last_words = 2s,
                                   .last_line = "step 12",
                                   .gpu = link::GpuUse{.index = 1, .percent = 50}};
  const link::WorkerStats silent{.local_rank = LocalRank{1}, .state = WorkerState::running};
  table.hear(t0 + 8s, b, link::Status{RoundNumber{2}, {reported, silent}});
  const link::WorkerStats begun{
      .local_rank = LocalRank{0}, .state = WorkerState::running, .step = 1, .gpu = link::GpuUse{}};
  table.hear(t0 + 8s, a, link::Status{RoundNumber{2}, {begun}});
  return table;
}

Table over() {
  Table table;
  table.seal();
  table.hear(
      t0 + 4s, b,
      link::Failed{.round = RoundNumber{1}, .failure = {.rank = Rank{3}, .status = {false, 1}}});
  table.drained(t0 + 6s, 1, {a, b});
  return table;
}

// Before and after its stacks were captured.
void look_at_stacks(Schemas& schemas) {
  Table table;
  for (const LinkId link : {a, b}) {
    link::Join join = node(link == a ? 0 : 1);
    join.captures = true;
    table.join(t0, link, join);
  }
  const auto look = [&] { schemas.look("Stacks", json::parse(stacks_json(table.job, later))); };
  look();
  table.command(t0, {.kind = OperatorCommand::Kind::capture});
  look();
  const hang::Position at{.group = "default_pg",
                          .sequence = 3,
                          .operation = "all_reduce",
                          .shape = "[4] Float",
                          .is_pending = true,
                          .queued = 1,
                          .members = hang::RankSet::all(4)};
  const hang::RankSet some(Rank{2});
  const hang::Evidence evidence{.clusters = {{.ranks = some,
                                              .activity = hang::Activity::disk,
                                              .detail = "in nfs_wait",
                                              .stack = {{"f", "x.cpp", 1}},
                                              .is_native = true,
                                              .native_stack = {{"read", "", 0}}}},
                                .positions = {{at, some}},
                                .unread = {{"no answer", some}}};
  table.hear(
      t0, b,
      link::Captured{.round = RoundNumber{1}, .number = 1, .bytes = hang::evidence_json(evidence)});
  table.hear(t0, a, link::Captured{.round = RoundNumber{1}, .number = 1, .bytes = "["});
  look();
  table.command(t0, {.kind = OperatorCommand::Kind::capture});
  for (const LinkId link : {a, b}) {
    table.hear(t0, link, link::Captured{.round = RoundNumber{1}, .number = 2, .bytes = "{}"});
  }
  look();
}

// A node with a seat and a spare without one.
Table with_spare() {
  Table table(0, 1, 1);
  for (const LinkId link : {a, b}) {
    link::Join join = node(static_cast<int>(link.value));
    join.node_rank.reset();
    join.nodes_min = join.nodes_max = 1;
    table.join(t0, link, join);
  }
  return table;
}

// With every optional member set.
DaemonSnapshot a_daemon() {
  return {.name = "a",
          .place = "a:29400",
          .version = "1.2",
          .has_etcd = true,
          .leads = true,
          .epoch = 12,
          .since = WallTime{} + 900s,
          .leader = "a",
          .leader_address = "a:29400",
          .standbys = {{.name = "b", .place = "b:29400", .version = "1.2", .bytes_behind = 7}},
          .durable = true,
          .trouble = "no answer",
          .changes = 1,
          .last_change = LeaderChange{.time = WallTime{} + 900s,
                                      .from = "b",
                                      .from_place = "b:29400",
                                      .to = "a",
                                      .to_place = "a:29400",
                                      .epoch = 12,
                                      .reason = "r",
                                      .silence = 12ms}};
}

void look_at_daemons(Schemas& schemas) {
  DaemonSnapshot daemon = a_daemon();
  const auto look = [&] { schemas.look("Daemon", json::parse(daemon_json(daemon, later))); };
  look();
  daemon.last_change = LeaderChange{.time = WallTime{} + 900s, .to = "a", .to_place = "a:29400"};
  look();
  daemon = {.name = "b"};
  look();
}

void look_at(Schemas& schemas, const Table& table) {
  const Job& job = table.job;
  schemas.look("Job", json::parse(job_json(details_of(job, later.now), later)));
  schemas.look("Job", json::parse(job_json(details_of(job, later.now, a_daemon()), later,
                                           {.status_page = "http://127.0.0.1:1/",
                                            .may_control = true,
                                            .hosted = {"python3 t.py", "alice", "/logs"}})));
  schemas.look("JobList", json::parse(jobs_json({snapshot_of(job, later.now)}, std::nullopt, later,
                                                {.status_page = "http://127.0.0.1:1/"})));
  for (const std::size_t most : {1U, 9U}) {
    const auto page = nodes_of(job, later.now, {.after = {}, .nodes_max = most});
    schemas.look("NodeList", json::parse(nodes_json(page, later)));
  }
}

}  // namespace

TEST_CASE("every readable path of the server is in the file, and the reverse") {
  const json file = document();
  const auto described = operations(file, "get");
  Words routes{"/api/v1/events"};
  for (const auto path : status_routes()) routes.emplace(path);
  CHECK(paths_of(described) == routes);
  for (const auto& [path, operation] : described) {
    CAPTURE(path);
    const http::Request request{.target = filled(path)};
    REQUIRE(get(request).status == 200);
    for (const auto& [type, content] : operation["responses"]["200"]["content"].items()) {
      http::Request accepting = request;
      accepting.accept = type;
      CHECK(get(accepting).type.starts_with(type));
    }
    Words statuses{"200", "401", "403", "414", "431"};  // from the server, for any path
    http::Request elsewhere = request;
    elsewhere.host = "evil.example";
    // Events are served by the server too, and are requested with a valid host name.
    statuses.insert(std::to_string(answer(with_job(), {}, later, elsewhere).status));
    statuses.insert(std::to_string(get({.target = request.target + "?bogus"}).status));
    if (path == "/api/v1/daemon") {  // a cpprun is not a daemon
      statuses.insert(std::to_string(answer(with_job(), {}, later, request).status));
    }
    if (path.find("{id}") != std::string::npos) {
      auto unknown = path;
      unknown.replace(unknown.find("{id}"), 4, "unknown");
      statuses.insert(std::to_string(get({.target = unknown}).status));
    }
    CHECK(statuses == keys_of(operation["responses"]));
  }
}

TEST_CASE("every parameter in the file is accepted") {
  for (const auto& [path, operation] : operations(document(), "get")) {
    for (const json& parameter : operation.value("parameters", json::array())) {
      if (parameter["in"] != "query") continue;
      std::string target = filled(path) + "?" + parameter["name"].get<std::string>();
      const json& schema = parameter["schema"];
      if (schema.contains("example")) {
        const json& example = schema["example"];
        target += "=" + (example.is_string() ? example.get<std::string>() : example.dump());
      }
      CAPTURE(target);
      CHECK(get({.target = target}).status == 200);
    }
  }
}

TEST_CASE("every command is in the file, and the reverse") {
  Words routes;
  // The last of them.
  for (int i = 0; i <= static_cast<int>(OperatorCommand::Kind::handover); ++i) {
    const OperatorCommand command{.kind = static_cast<OperatorCommand::Kind>(i)};
    const char* const whose = command.is_about_the_daemon() ? "/api/v1/daemon/"
                              : command.is_about_a_host()   ? "/api/v1/hosts/{host}/"
                                                            : "/api/v1/jobs/{id}/";
    routes.insert(whose + std::string(name_of(command.kind)));
  }
  const json file = document();
  const auto described = operations(file, "post");
  CHECK(paths_of(described) == routes);
  for (const auto& [path, operation] : described) {
    CAPTURE(path);
    const json body = least_body(schema_of_body(file, operation));
    // At least an empty object, because its type is required.
    CHECK(operation["requestBody"]["required"] == true);
    const http::Request request = post(path, body);
    http::Request elsewhere = request;
    elsewhere.host = "evil.example";
    http::Request untyped = request;
    untyped.content_type.clear();
    http::Request by_page = request;
    by_page.origin = "http://evil.example";
    Words statuses{"401", "413", "414", "431"};  // from the server, for any path
    for (const auto& each : {request, elsewhere, untyped, by_page, post(path, {{"bogus", 1}})}) {
      statuses.insert(std::to_string(status_of(each)));
    }
    using Kind = CommandResult::Kind;
    for (const auto kind : {Kind::done, Kind::malformed, Kind::unknown, Kind::not_now}) {
      statuses.insert(std::to_string(answer_to({kind, "x"}).status));
    }
    CHECK(statuses == keys_of(operation["responses"]));
  }
}

TEST_CASE("a command accepts exactly the parameters in the file") {
  const json file = document();
  const auto described = operations(file, "post");
  json examples;
  for (const auto& [path, operation] : described) {
    for (const auto& [key, value] : schema_of_body(file, operation)["properties"].items()) {
      examples[key] = value["example"];
    }
  }
  CHECK(keys_of(examples) == Words{"for_s", "job", "native", "node", "reason", "signal"});
  for (const auto& [path, operation] : described) {
    const json& schema = schema_of_body(file, operation);
    for (const auto& [key, value] : examples.items()) {
      CAPTURE(path);
      CAPTURE(key);
      json body = least_body(schema);
      body[key] = value;
      CHECK((status_of(post(path, body)) == 200) == schema["properties"].contains(key));
    }
    for (const auto& key : keys_of(least_body(schema))) {
      json body = least_body(schema);
      body.erase(key);
      CHECK(status_of(post(path, body)) == 400);
    }
  }
}

TEST_CASE("answers have exactly the members and types of their schemas") {
  const json file = document();
  Schemas schemas(file);
  look_at(schemas, Table());
  look_at(schemas, with_spare());
  look_at(schemas, failed_once());
  look_at(schemas, over());
  look_at_daemons(schemas);
  look_at_stacks(schemas);
  schemas.look("JobList", json::parse(jobs_json({}, "j", later)));
  schemas.look("Error", json::parse(error_json("no")));
  schemas.look("Said", json::parse(answer_to({CommandResult::Kind::done, "yes", {"j"}}).body));
  CHECK(schemas.faults() == "");
  CHECK(schemas.unseen() == "");
}

TEST_CASE("all events have the members that the file lists for them") {
  const json file = document();
  Schemas schemas(file);
  JobEvents events("host0");
  const auto line = events.line(WallTime{}, "j", coordinator::NodeChange{.host = "host1"});
  REQUIRE(line);
  schemas.look("Event", json::parse(*line));
  CHECK(schemas.faults() == "");
  // A node's own events have its rank: launcher/report writes these.
  CHECK(schemas.unseen() == "Event.node: integer\n");
}

TEST_CASE("a value that is in no schema, or of another type, is found") {
  const json file = document();
  Schemas schemas(file);
  schemas.look("Said", {{"said", nullptr}, {"more", "x"}});
  schemas.look("Error", json::object());
  CHECK(schemas.faults() ==
        "Error.error is missing\nSaid.more is in no schema\nSaid.said: null is not allowed\n");
  CHECK(schemas.unseen() ==
        "Error.error: string\nSaid.kept_by: array\nSaid.kept_by[]: string\nSaid.said: string\n");
}

}  // namespace openapi_test
