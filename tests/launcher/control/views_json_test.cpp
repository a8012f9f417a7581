// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/views.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace job_view_json_test {

using namespace cpprun;
using nlohmann::json;

namespace {

const std::string one_job =
    R"({"job":"a","state":"running","since":90.5,"round":2,"nodes_min":1,"nodes_max":2,)"
    R"("nodes":{"waiting":1,"running":2,"succeeded":0,"drained":0,"away":1},"world_size":4,)"
    R"("restarts":1,"restarts_max":3,"restarts_left":2,"lease":3.0,"silence_max":0.5,)"
    R"("exit_code":null,"reason":"","time":100.0,"waits_for":"",)"
    R"("cover":"another node takes over","root":null,"rounds":[)"
    R"({"round":1,"restart":0,"began":50,"ended":60,"reason":"rank 1 failed","failure":)"
    R"({"rank":1,"local_rank":1,"node":0,"host":"h","pid":7,"exit_code":137,"signal":"SIGKILL",)"
    R"("time":59,"message":"m","cause":"killed","consequence":false},"consequences":[],)"
    R"("consequence_count":3}],"rounds_left_out":5})";

}  // namespace

TEST_CASE("a job is read with its rounds and their failures") {
  const auto job = job_view(one_job);
  REQUIRE(job);
  CHECK(job->id == "a");
  CHECK(job->since == 90.5);
  CHECK(job->nodes() == 3);
  CHECK(job->away == 1);
  CHECK(job->restarts_left == 2);
  CHECK_FALSE(job->exit_code);
  CHECK(job->cover == "another node takes over");
  REQUIRE(job->rounds.size() == 1);
  CHECK(job->rounds[0].ended == 60.0);
  CHECK(job->rounds[0].consequence_count == 3);
  REQUIRE(job->rounds[0].failure);
  CHECK(job->rounds[0].failure->signal == "SIGKILL");
  CHECK(job->rounds[0].failure->cause == "killed");
  CHECK(job->rounds_left_out == 5);
}

TEST_CASE("jobs and nodes are read with the start of the next page") {
  const auto jobs = jobs_view(R"({"time":7,"jobs":[)" + one_job + R"(],"next":"a"})");
  REQUIRE(jobs);
  CHECK(jobs->jobs[0].now == 7);
  CHECK(jobs->next == "a");
  const auto nodes = nodes_view(
      R"({"time":9,"nodes":[{"host":"h","node":null,"state":"waiting","since":1,"silence":null,)"
      R"("connected":false,"leaving":true,"hosts_coordinator":true,"pid":4,"workers":2,)"
      R"("base_rank":2,"role":"r"}],"next":null})");
  REQUIRE(nodes);
  CHECK_FALSE(nodes->next);
  CHECK_FALSE(nodes->nodes[0].node);
  CHECK_FALSE(nodes->nodes[0].is_connected);
  CHECK(nodes->nodes[0].base_rank == 2);
}

TEST_CASE("of the workers' figures the slowest step counts, and memory is summed") {
  const auto nodes = nodes_view(
      R"({"nodes":[{"host":"h","ranks":[{"step":12,"steps_per_second":2.5,"resident_bytes":100,)"
      R"("cpu_percent":90,"gpu":{"index":0,"percent":70,"used_bytes":8}},)"
      R"({"step":10,"steps_per_second":null,"resident_bytes":50,"cpu_percent":5,)"
      R"("gpu":{"index":1,"percent":60,"used_bytes":4}},{"gpu":null},)"
      R"({"gpu":{"index":1,"percent":60,"used_bytes":4}}]},{"host":"i","ranks":[]},)"
      R"({"host":"j","ranks":7}]})");
  REQUIRE(nodes);
  const StatsView& figures = nodes->nodes[0].figures;
  CHECK(figures.step == 10);
  CHECK(figures.steps_per_second == 2.5);
  CHECK(figures.resident_bytes == 150);
  CHECK(figures.cpu_percent == 95);
  CHECK(figures.gpu_percent == 60);
  CHECK(figures.gpu_used_bytes == 12);
  CHECK_FALSE(nodes->nodes[1].figures.step);
  CHECK_FALSE(nodes->nodes[2].figures.resident_bytes);
}

TEST_CASE("the page of a report contains the report as data, without markup") {
  const std::string report =
      R"({"version":1,"job":"a","state":"ended","program":["t","--api-key=secret"],"others":[],)"
      R"("attempts":[],"consequences":[],"reason":"</p><script>alert(1)</script> & more"})";
  const auto page = report_page(report);
  REQUIRE(page);
  CHECK(page->find("<script>alert") == std::string::npos);
  const std::string_view begin = R"(<p id="report" hidden>)";
  const auto from = page->find(begin) + begin.size();
  const auto data = page->substr(from, page->find("</p>", from) - from);
  CHECK(data.find('&') == std::string::npos);
  const auto shown = nlohmann::json::parse(data);
  CHECK(shown["reason"] == "</p><script>alert(1)</script> & more");
  CHECK(shown["command"] == "t --api-key=…");
  CHECK(page->find("secret\"") == std::string::npos);
  CHECK(page->find("connect-src 'none'") != std::string::npos);
  CHECK(page->find("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'") !=
        std::string::npos);
}

TEST_CASE("a file that is not a report, or a report of a later version, is rejected") {
  for (const char* const wrong :
       {"", "{}", "[]", R"({"event":"job_started","job":"a"})",
        R"({"version":1,"job":"a","state":"s","others":[1],"attempts":[],"consequences":[]})"}) {
    const auto page = report_page(wrong);
    REQUIRE_FALSE(page);
    CHECK(page.error().reason == "not a report of cpprun --report");
  }
  const auto later = report_page(
      R"({"version":2,"job":"a","state":"ended","others":[],"attempts":[],"consequences":[]})");
  REQUIRE_FALSE(later);
  CHECK(later.error().reason ==
        "the report has version 2, but this cpprunctl reads version 1; use the cpprunctl of the "
        "cpprun that wrote it");
}

TEST_CASE("missing or invalid members keep their default, and invalid answers are rejected") {
  const auto job = job_view(R"({"job":"a","round":"x","nodes":3,"rounds":7,"restarts":1e99})");
  REQUIRE(job);
  CHECK(job->round == 0);
  CHECK(job->restarts == 0);
  CHECK(job->rounds.empty());
  for (const auto* wrong : {"", "[]", "null", "{}", "{\"jobs\":3}", "{\"jobs\":", "\xff"}) {
    CAPTURE(wrong);
    CHECK_FALSE(jobs_view(wrong));
    CHECK_FALSE(job_view(wrong));
    CHECK_FALSE(nodes_view(wrong));
  }
}

TEST_CASE("a command contains only the given members, and its answer is read") {
  CHECK(order_json({.kind = CommandKind::stop}) == "{}");
  CHECK(json::parse(order_json({.kind = CommandKind::drain, .subject = "3", .reason = "ECC"})) ==
        json{{"reason", "ECC"}, {"node", "3"}});
  CHECK(json::parse(
            order_json({.kind = CommandKind::exclude, .subject = "h", .for_seconds = 7200})) ==
        json{{"for_s", 7200}});
  CHECK(json::parse(order_json({.kind = CommandKind::save, .signal = "SIGUSR2"})) ==
        json{{"signal", "SIGUSR2"}});
  CHECK(order_json({.kind = CommandKind::stacks, .native = true}) == R"({"native":true})");
  CHECK(said_in(R"({"said":"it ends"})") == "it ends");
  CHECK(error_in(R"({"error":"no such job"})") == "no such job");
  CHECK(error_in("only root may\nmore") == "only root may");
}

TEST_CASE("the JSON has the jobs of all endpoints, and those that did not answer") {
  const auto all =
      json::parse(list_json({{.place = "/a", .text = R"({"time":5,"jobs":[{"job":"x"}]})"},
                             {.place = "/b", .text = "gone", .has_answered = false}}));
  REQUIRE(all["jobs"].size() == 1);
  CHECK(all["jobs"][0] == json{{"job", "x"}, {"time", 5.0}, {"at", "/a"}});
  CHECK(all["silent"][0] == json{{"at", "/b"}, {"reason", "gone"}});
  const auto status = json::parse(status_json(one_job, {R"({"nodes":[{"host":"h"}]})"}));
  CHECK(status["job"] == "a");
  CHECK(status["members"] == json::array({{{"host", "h"}}}));
  CHECK(status["daemon"].is_null());
  CHECK(json::parse(status_json(one_job, {}, R"({"role":"leads"})"))["daemon"]["role"] == "leads");
  const auto daemons =
      json::parse(daemons_json({{"/d", R"({"role":"leads"})"}}, {{"/b", "gone", false}}));
  CHECK(daemons["daemons"] == json::array({{{"role", "leads"}, {"at", "/d"}}}));
  CHECK(daemons["jobs"].empty());
  CHECK(daemons["silent"].size() == 1);
  CHECK(json::parse(ending_json("a", 3, "\xff")) ==
        json{{"job", "a"}, {"exit_code", 3}, {"reason", "\xEF\xBF\xBD"}});
  CHECK(json::parse(said_json("done")) == json{{"said", "done"}});
}

}  // namespace job_view_json_test
