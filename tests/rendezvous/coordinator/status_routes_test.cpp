// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/http_routes.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rendezvous/coordinator/bounds.h"

namespace status_routes_test {

using namespace cpprun;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr TimePoint t0{};
const ClockPair later{.now = t0 + 5s, .wall = WallTime{} + 1000s};

Coordinator daemon_with(const std::vector<std::string>& jobs, int nodes = 1) {
  Coordinator daemon{{.only = {},
                      .options = {.lease = 3s, .status_interval = 5s, .last_call = 30s},
                      .limits = {.jobs = 5000, .jobs_per_source = 5000, .links_per_source = 5000}}};
  std::uint64_t link = 0;
  for (const auto& job : jobs) {
    for (int node = 0; node < nodes; ++node) {
      const LinkId id{++link};
      daemon.handle(t0, Coordinator::Opened{{.link = id, .peer = "10.0.0.1"}});
      daemon.handle(t0, Coordinator::Said{id, link::Join{.job = job,
                                                         .host = "host" + std::to_string(node),
                                                         .pid = node + 1,
                                                         .nodes_min = nodes,
                                                         .nodes_max = nodes}});
      if (node == 0) daemon.handle(t0, Coordinator::StoreReady{job, 7});
    }
  }
  return daemon;
}

http::Response get(const Coordinator& coordinator, const std::string& target,
                   const std::string& host = "127.0.0.1:29400") {
  return answer(coordinator, {"node-7"}, later, {http::Method::get, target, host});
}

}  // namespace

TEST_CASE("a request for a job asks its workers for statistics; the job list and the page do not") {
  const auto job_of = [](const char* target, http::Method method = http::Method::get) {
    const auto looked = looked_at({.method = method, .target = target});
    return !looked ? "none" : looked->job.value_or("all");
  };
  CHECK(job_of("/metrics") == "all");
  CHECK(job_of("/api/v1/jobs/a%20b") == "a b");
  CHECK(job_of("/api/v1/jobs/a/nodes?after=3&limit=1") == "a");
  CHECK(job_of("/api/v1/jobs") == "none");
  CHECK(job_of("/") == "none");
  CHECK(job_of("/api/v1/jobs/a", http::Method::post) == "none");
  CHECK(job_of("/api/v1/jobs/a?b=c") == "none");
}

TEST_CASE("each path returns its content") {
  const Coordinator daemon = daemon_with({"a"});
  CHECK(get(daemon, "/").type == "text/html; charset=utf-8");
  CHECK(get(daemon, "/healthz").body == "ok\n");
  CHECK(get(daemon, "/readyz").body == "ok\n");
  CHECK(get(daemon, "/metrics").type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(get(daemon, "/metrics").body.find("cpprun_jobs 1\n") != std::string::npos);
  const auto jobs = json::parse(get(daemon, "/api/v1/jobs").body);
  CHECK(jobs["jobs"][0]["job"] == "a");
  CHECK(jobs["jobs"][0]["state"] == "running");
  const auto job = json::parse(get(daemon, "/api/v1/jobs/a").body);
  CHECK(job["rounds"][0]["round"] == 1);
  const auto nodes = json::parse(get(daemon, "/api/v1/jobs/a/nodes").body);
  CHECK(nodes["nodes"][0]["silence"] == 5.0);
}

TEST_CASE("a job and the job list link to their status page") {
  const Coordinator daemon = daemon_with({"a"});
  for (const char* target : {"/api/v1/jobs", "/api/v1/jobs/a"}) {
    const http::Request request{http::Method::get, target, "node-7"};
    const Viewer viewer{.status_page = "http://10.0.0.7:1/",
                        .may_control = true,
                        .hosted = {.command = "python3 train.py"}};
    const auto shown = json::parse(answer(daemon, {"node-7"}, later, request, {}, {}, viewer).body);
    CHECK(shown["status_page"] == "http://10.0.0.7:1/");
    if (shown.contains("jobs")) continue;
    CHECK(shown.at("may_control") == true);
    CHECK(shown.at("command") == "python3 train.py");
    CHECK(json::parse(get(daemon, target).body)["status_page"].is_null());
  }
}

TEST_CASE("metrics come in OpenMetrics format on request") {
  const Coordinator daemon = daemon_with({"a"});
  http::Request request{.target = "/metrics", .accept = "application/openmetrics-text"};
  const auto open = answer(daemon, {}, later, request);
  CHECK(open.type == "application/openmetrics-text; version=1.0.0; charset=utf-8");
  CHECK(open.body.ends_with("# EOF\n"));
  CHECK(open.fields == get(daemon, "/metrics").fields);
  CHECK(open.fields[0].first == "Vary");
  CHECK_FALSE(get(daemon, "/metrics").body.ends_with("# EOF\n"));
}

TEST_CASE("metrics report the end of a job after its nodes have left, until its name is reused") {
  Coordinator daemon = daemon_with({"a"});
  daemon.handle(t0, Coordinator::Said{LinkId{1}, link::Succeeded{RoundNumber{1}}});
  daemon.handle(t0, Coordinator::Closed{LinkId{1}, "done"});
  REQUIRE(daemon.job_count() == 0);
  const std::string ended = "cpprun_job_exit_code{run_id=\"a\"} 0\n";
  CHECK(get(daemon, "/metrics").body.find(ended) != std::string::npos);
  CHECK(get(daemon, "/metrics").body.find("cpprun_jobs 0\n") != std::string::npos);
  CHECK(json::parse(get(daemon, "/api/v1/jobs").body)["jobs"].empty());
  const link::Join join{.job = "a", .host = "host", .pid = 3, .nodes_min = 1, .nodes_max = 1};
  daemon.handle(t0, Coordinator::Opened{{.link = LinkId{9}, .peer = "10.0.0.1"}});
  daemon.handle(t0, Coordinator::Said{LinkId{9}, join});
  daemon.handle(t0, Coordinator::StoreReady{"a", 8});
  CHECK(get(daemon, "/metrics").body.find("cpprun_job_exit_code{") == std::string::npos);
}

TEST_CASE("an unknown path is rejected with a status and a message") {
  const Coordinator daemon = daemon_with({"a"});
  CHECK(get(daemon, "/api/v1/jobs/b").status == 404);
  CHECK(json::parse(get(daemon, "/api/v1/jobs/b\"").body)["error"] == "unknown job \"b\"\"");
  for (const char* target :
       {"/nothing", "//", "/api", "/api/v1/jobsx", "/api/v1/jobs/", "/api/v1/jobs/a/",
        "/api/v1/jobs/a/nodes/", "/api/v1/jobs/%", "/../healthz", "/api/v1/jobs//nodes"}) {
    CAPTURE(target);
    CHECK(get(daemon, target).status == 404);
  }
  for (const char* target :
       {"/api/v1/jobs?before=a", "/api/v1/jobs?after=%zz", "/?x", "/api/v1/jobs/a/nodes?ranks=2",
        "/api/v1/jobs/a/nodes?limit=0", "/api/v1/jobs/a/nodes?limit=x",
        "/api/v1/jobs/a/nodes?after=x", "/api/v1/jobs/a/nodes?after=-1"}) {
    CAPTURE(target);
    CHECK(get(daemon, target).status == 400);
  }
}

TEST_CASE("the status routes are read-only") {
  const Coordinator daemon = daemon_with({"a"});
  const auto refused = answer(daemon, {}, later, {http::Method::post, "/api/v1/jobs/a", ""});
  CHECK(refused.status == 405);
  CHECK(refused.fields[0].second == "GET, HEAD");
  const auto removal = [&](const char* target) {
    return answer(daemon, {}, later, {http::Method::other, target, ""});
  };
  CHECK(removal("/").status == 405);
  CHECK(removal("/").fields[0].second == "GET, HEAD");
  CHECK(removal("/api/v1/jobs/a/stop").status == 405);
  CHECK(removal("/api/v1/jobs/a/stop").fields[0].second == "POST");
}

TEST_CASE("a page of another site whose name resolves to this host has no access") {
  const Coordinator daemon = daemon_with({"a"});
  for (const char* target : {"/", "/metrics", "/api/v1/jobs", "/healthz"}) {
    CHECK(get(daemon, target, "evil.example").status == 421);
    CHECK(get(daemon, target, "evil.example").body.find("\"a\"") == std::string::npos);
    CHECK(get(daemon, target, "node-7:29400").status == 200);
  }
}

TEST_CASE("a job is found whatever its name") {
  for (const char* id : {"a/nodes", "a b", "nodes", "100%", "\xc3\xa9", "?after=x", ".."}) {
    CAPTURE(id);
    const Coordinator daemon = daemon_with({id});
    std::string escaped;
    for (const char letter : std::string(id)) {
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(letter));
    }
    CHECK(json::parse(get(daemon, "/api/v1/jobs/" + escaped).body)["job"] == id);
    CHECK(json::parse(get(daemon, "/api/v1/jobs/" + escaped + "/nodes").body)["nodes"].size() == 1);
  }
}

TEST_CASE("a long job list comes in pages, sorted by name, with each job once") {
  std::vector<std::string> names;
  for (int at = 0; at < 450; ++at) names.push_back(fmt::format("job {:04}", at));
  const Coordinator daemon = daemon_with(names);
  std::vector<std::string> seen;
  std::string target = "/api/v1/jobs";
  for (int page = 0; page < 3; ++page) {
    const auto read = json::parse(get(daemon, target).body);
    CHECK(read["jobs"].size() <= bounds::status_jobs_shown_max);
    for (const auto& job : read["jobs"]) seen.push_back(job["job"]);
    CHECK(read["next"].is_null() == (page == 2));
    if (page < 2) {
      target = "/api/v1/jobs?after=job%20" + read["next"].get<std::string>().substr(4);
    }
  }
  CHECK(seen == names);
}

TEST_CASE("a long node list comes in pages, sorted by seat, with each node once") {
  const Coordinator daemon = daemon_with({"a"}, 1200);
  std::vector<int> seen;
  std::string target = "/api/v1/jobs/a/nodes";
  for (int page = 0; page < 3; ++page) {
    const auto read = json::parse(get(daemon, target).body);
    CHECK(read["nodes"].size() <= bounds::status_nodes_shown_max);
    for (const auto& node : read["nodes"]) seen.push_back(node["node"]);
    CHECK(read["next"].is_null() == (page == 2));
    if (page < 2) {
      target = "/api/v1/jobs/a/nodes?after=" + read["next"].get<std::string>();
    }
  }
  REQUIRE(seen.size() == 1200);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.back() == 1199);
}

TEST_CASE("a daemon without a job returns an empty list") {
  const Coordinator daemon = daemon_with({});
  CHECK(json::parse(get(daemon, "/api/v1/jobs").body)["jobs"].empty());
  CHECK(get(daemon, "/metrics").body.find("cpprun_jobs 0\n") != std::string::npos);
}

TEST_CASE("escapes are decoded, and half an escape is invalid") {
  CHECK(unescaped("a%2Fb%20c") == "a/b c");
  CHECK(unescaped("%41%e9") == "A\xe9");
  CHECK(unescaped("") == "");
  for (const char* text : {"%", "%4", "%zz", "%-1", "a%", "% 1"}) {
    CAPTURE(text);
    CHECK_FALSE(unescaped(text));
  }
}

}  // namespace status_routes_test
