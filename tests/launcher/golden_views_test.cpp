// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "launcher/control/views.h"
#include "tests/golden.h"

namespace golden_views_test {

using namespace cpprun;
using namespace cpprun::testing;
using Json = nlohmann::json;

namespace {

const char* const a_job =
    R"({"job":"a","state":"running","since":90.5,"round":2,"nodes_min":1,"nodes_max":2,)"
    R"("nodes":{"waiting":1,"running":2,"succeeded":3,"drained":4,"away":5},"world_size":4,)"
    R"("restarts":1,"restarts_max":3,"restarts_left":2,"lease":3.0,"silence_max":0.5,)"
    R"("exit_code":7,"reason":"r","time":100.0,"status_page":"http://x","command":"c","user":"u",)"
    R"("waits_for":"w","cover":"another node","warnings":["one","two"],)"
    R"("root":{"rank":1,"node":2,"host":"h","pid":7,"exit_code":137,"signal":"SIGKILL",)"
    R"("message":"m","cause":"killed"},"progress":{"step_min":9,"total":100,"remaining":12.5,)"
    R"("metrics":[{"name":"loss","value":0.5},{"name":"lr","value":null}]},"rounds":[)"
    R"({"round":1,"restart":1,"began":50,"ended":60,"reason":"rank 1 failed","failure":)"
    R"({"rank":1,"node":2,"host":"h","pid":7,"exit_code":3,"signal":null,"message":"m",)"
    R"("cause":"c"},"consequence_count":3}],"rounds_left_out":5})";

const char* const some_nodes =
    R"({"time":9,"nodes":[{"host":"h","node":1,"state":"waiting","since":1,"silence":0.25,)"
    R"("connected":false,"leaving":true,"hosts_coordinator":true,"pid":4,"workers":2,)"
    R"("base_rank":2,"role":"r","ranks":[{"step":12,"steps_per_second":2.5,"resident_bytes":100,)"
    R"("cpu_percent":90,"gpu":{"index":0,"percent":70,"used_bytes":8}}]}],"next":"n"})";

const char* const a_daemon =
    R"({"time":9,"name":"a","place":"a:1","version":"1","role":"stands_by","judge":"etcd",)"
    R"("leader":"b","leader_place":"b:1","epoch":12,"since":5,"in_sync":true,"standbys":[)"
    R"({"name":"c","place":"c:1","version":"2","in_sync":true,"bytes_behind":9}],"durable":true,)"
    R"("synced":true,"trouble":"t","changes":2,"last_change":{"time":3,"from":"x:1","to":"y:1",)"
    R"("from_name":"x","to_name":"y","epoch":12,"reason":"r","silence":0.5},"warnings":["w"]})";

const char* const an_event =
    R"({"time":100,"event":"job_ended","job":"a","host":"h","node":1,"round":2,"exit_code":3,)"
    R"("reason":"r","to":"b:1","root":{"rank":1}})";

template <class Number>
std::string number(const std::optional<Number>& value) {
  return value ? fmt::format("{} ", *value) : "- ";
}

std::string text_of(const FailureView& view) {
  return fmt::format("[{} {} {} {} {} {} {} {}]", view.rank, view.node, view.host, view.pid,
                     view.exit_code, view.signal, view.message, view.cause);
}

std::string text_of(const JobView& job) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", job.id,
                  job.state, job.now, job.page, job.command, job.user, job.round, job.nodes_min,
                  job.nodes_max, job.waiting, job.running, job.succeeded, job.drained, job.away,
                  job.world_size, job.restarts, job.restarts_max, job.restarts_left, job.lease,
                  job.reason, job.waits_for, job.cover, job.rounds_left_out, job.warnings.size());
  text += number(job.since) + number(job.silence_max) + number(job.exit_code);
  for (const auto& each : job.warnings) text += each + ",";
  if (job.root) text += text_of(*job.root);
  for (const auto& each : job.rounds) {
    text += fmt::format("({} {} {} {} {} {}{})", each.round, each.restart, each.began, each.reason,
                        each.consequence_count, number(each.ended),
                        each.failure ? text_of(*each.failure) : "");
  }
  text += number(job.progress.step) + number(job.progress.total) + number(job.progress.remaining);
  for (const auto& each : job.progress.metrics) text += each.name + number(each.value);
  return text;
}

std::string text_of(const NodesView& view) {
  std::string text = fmt::format("{} {} ", view.now, view.next.value_or("-"));
  for (const auto& each : view.nodes) {
    const auto& stats = each.figures;
    text += fmt::format("({} {} {} {} {} {} {} {} {} {}", each.host, each.state, each.since,
                        each.is_connected, each.is_leaving, each.hosts_coordinator, each.pid,
                        each.workers, each.role, number(each.node)) +
            number(each.silence) + number(each.base_rank) + number(stats.step) +
            number(stats.steps_per_second) + number(stats.resident_bytes) +
            number(stats.cpu_percent) + number(stats.gpu_percent) + number(stats.gpu_used_bytes);
  }
  return text;
}

std::string text_of(const DaemonView& view) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", view.name, view.place, view.version,
                  view.leads, view.has_etcd, view.leader, view.leader_address, view.epoch, view.now,
                  view.is_in_sync, view.is_synced, view.trouble);
  text += number(view.since) + number(view.is_durable);
  for (const auto& each : view.standbys) {
    text += fmt::format("({} {} {} {} {})", each.name, each.place, each.version, each.is_in_sync,
                        each.bytes_behind);
  }
  if (const auto& change = view.last_change) {
    text += fmt::format("({} {} {} {} {})", change->time, change->from, change->to, change->reason,
                        number(change->silence));
  }
  for (const auto& each : view.warnings) text += each + ",";
  return text;
}

std::string text_of(const JobsView& view) {
  std::string text = view.next.value_or("-");
  for (const auto& each : view.jobs) text += "(" + text_of(each) + ")";
  return text;
}

template <class Value>
std::string told(const Result<Value>& read) {
  return read ? text_of(*read) : read.error().reason;
}

}  // namespace

TEST_CASE("replies and events are read as in earlier versions, whatever is wrong with them") {
  Golden golden("views");
  const auto add = [&](const char* name, const char* text, const auto& read) {
    golden.add(name, read(Json::parse(text)));
    golden.add(std::string(name) + " changed", outcomes_of(Json::parse(text), read));
  };
  add("job", a_job, [](const Json& json) { return told(job_view(json.dump())); });
  add("jobs",
      (R"({"time":7,"status_page":"p","next":"n","jobs":[)" + std::string(a_job) + "]}").c_str(),
      [](const Json& json) { return told(jobs_view(json.dump())); });
  add("nodes", some_nodes, [](const Json& json) { return told(nodes_view(json.dump())); });
  add("daemon", a_daemon, [](const Json& json) { return told(daemon_view(json.dump())); });
  add("event", an_event, [](const Json& json) {
    const auto view = event_view(json.dump());
    return event_text(json.dump(), {}) +
           (view ? fmt::format("{} {} {} {} {} {}", view->job, view->name, view->time,
                               view->exit_code, view->reason, view->leader)
                 : "none");
  });
  golden.add("order", order_json({.kind = CommandKind::exclude,
                                  .job = "j",
                                  .reason = "r\xff",
                                  .signal = "SIGINT",
                                  .for_seconds = 9}));
  golden.add("drain", order_json({.kind = CommandKind::drain, .subject = "3"}));
  const std::vector<SeenAnswer> answers = {{"/a", R"({"time":5,"jobs":[{"job":"x"},3]})", true},
                                           {"/b", "gone", false},
                                           {"/c", "{}", true}};
  golden.add("list", list_json(answers));
  golden.add("daemons", daemons_json({{"/d", a_daemon}, {"/e", "[]"}}, answers));
  golden.add("status", status_json(a_job, {some_nodes, "[]"}, a_daemon));
  golden.add("empty status", status_json("", {}));
  golden.add("ending", ending_json("a", 3, "\xff"));
  golden.add("said", said_json("done"));
  golden.check();
}

}  // namespace golden_views_test
