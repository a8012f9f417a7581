// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/views.h"

#include <doctest/doctest.h>

namespace event_text_json_test {

using namespace cpprun;

namespace {

// What is printed of an event after the time, the job, the host and the round.
std::string words(const std::string& event, const std::string& members) {
  const auto line = R"({"time":3661.5,"event":")" + event + R"(","job":"j","host":"h","node":0,)" +
                    R"("round":2)" + (members.empty() ? "" : "," + members) + "}";
  const auto text = event_text(line, {});
  const std::string begin = "01:01:01 j h@2 ";
  REQUIRE(text.starts_with(begin));
  return text.substr(begin.size());
}

}  // namespace

TEST_CASE("each event is printed as a sentence") {
  CHECK(words("round_sealed", R"("restart":1,"nodes":2,"world_size":16,"base_rank":0)") ==
        "round_sealed    2 nodes, 16 workers, restart 1");
  CHECK(words("worker_started", R"("rank":3,"local_rank":1,"pid":77)") ==
        "worker_started  rank 3: pid 77");
  CHECK(words("worker_exited", R"("rank":3,"pid":7,"exit_code":137,"signal":"SIGKILL")") ==
        "worker_exited   rank 3: SIGKILL (pid 7)");
  CHECK(words("worker_exited", R"("rank":3,"pid":7,"exit_code":1,"signal":null)") ==
        "worker_exited   rank 3: exit code 1 (pid 7)");
  CHECK(words("worker_failed", R"("failure":{"rank":1,"host":"b","exit_code":1,"signal":null,)"
                               R"("cause":"python_error","message":"ValueError: x\nmore"})") ==
        "worker_failed   rank 1 on b: exit code 1 (python_error): ValueError: x");
  CHECK(words("worker_restarting", R"("rank":1,"restart":2,"reason":"restart 2 of 5")") ==
        "worker_restarting  rank 1 alone: restart 2 of 5");
  CHECK(words("node_lost", R"("changed_host":"b","changed_node":1,"reason":"silent")") ==
        "node_lost       b (node 1): silent");
  CHECK(words("node_joined", R"("changed_host":"b","changed_node":null)") == "node_joined     b");
  CHECK(words("coordinator_note", R"("text":"said")") == "coordinator_note  said");
  CHECK(words("keeper", R"("text":"said")") == "keeper          said");
  CHECK(words("order", R"("order":"stop","by":"uid 7","said":"it ends")") ==
        "order           stop by uid 7: it ends");
  CHECK(words("leader_changed", R"("from":"a:1","to":"b:1","epoch":7,"silence":0.5)") ==
        "leader_changed  leadership moved to b:1 from a:1, epoch 7; no leader for 0.5 s");
  CHECK(words("leader_changed", R"("from":"a:1","to":"b:1","from_name":"a","to_name":"b",)"
                                R"("epoch":7,"reason":"its link is lost","silence":null)") ==
        "leader_changed  leadership moved to b from a, epoch 7: its link is lost");
  CHECK(words("job_ended", R"("exit_code":0,"reason":"all ended","root":null)") ==
        "job_ended       exit code 0: all ended");
}

TEST_CASE("an unknown event is printed with all its members") {
  CHECK(words("ordered", R"("verb":"stop","uid":7)") == "ordered         verb=stop uid=7");
}

TEST_CASE(
    "untrusted text stays on one line without control characters, and colour is for terminals") {
  CHECK(words("keeper", R"("text":"a\nb\u001b[2J")") == "keeper          a?b?[2J");
  const std::string line =
      R"({"time":0,"event":"node_lost","job":"j","host":"h","round":1,"changed_host":"b"})";
  CHECK(event_text(line, {.names_job = false, .canvas = {.has_colour = true}})
            .find("h@1 \x1b[31mnode_lost\x1b[0m") != std::string::npos);
  CHECK(event_text("no \x1b JSON", {}) == "no ? JSON");
  CHECK(event_text(line, {.utc_offset_seconds = -3600}).starts_with("23:00:00 "));
}

TEST_CASE("the end of a job is recognised by its event") {
  const auto end =
      event_view(R"({"event":"job_ended","job":"j","exit_code":3,"reason":"r","time":9})");
  REQUIRE(end);
  CHECK(end->is_end());
  CHECK(end->exit_code == 3);
  CHECK(end->reason == "r");
  CHECK(end->time == 9);
  CHECK_FALSE(event_view(R"({"event":"waiting"})")->is_end());
  for (const auto* none : {"", "3", "[]", "{}", "{\"event\":1}"}) CHECK_FALSE(event_view(none));
}

}  // namespace event_text_json_test
