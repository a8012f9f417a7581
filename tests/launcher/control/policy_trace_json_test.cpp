// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/policy_replay.h"

#include <doctest/doctest.h>

#include <csignal>

namespace policy_trace_json_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

// As --events writes them, from two nodes that share a file.
constexpr std::string_view events =
    R"({"time":1000.0,"event":"job_started","job":"j","host":"a","node":0,"round":0}
{"time":1001.0,"event":"round_sealed","job":"j","host":"a","node":0,"round":1}
{"time":1001.2,"event":"round_sealed","job":"j","host":"b","node":1,"round":1}
{"time":1060.0,"event":"worker_failed","job":"j","host":"a","node":0,"round":1,)"
    R"("failure":{"rank":0,"host":"a","exit_code":1,"signal":null,"time":1060.0,)"
    R"("cause":"peer_gone","consequence":true}}
{"time":1060.5,"event":"worker_failed","job":"j","host":"b","node":1,"round":1,)"
    R"("failure":{"rank":3,"host":"b","exit_code":137,"signal":"SIGKILL","time":1060.4,)"
    R"("cause":"out_of_memory","consequence":false}}
{"time":1062.0,"event":"round_sealed","job":"j","host":"a","node":0,"round":2}
{"time":1100.0,"event":"node_lost","job":"j","host":"a","node":0,"round":2,)"
    R"("changed_host":"b","changed_node":1,"reason":"no response for 3 s"}
{"time":1101.0,"event":"round_sealed","job":"j","host":"a","node":0,"round":3}
)";

std::string why_not(std::string_view text, std::string_view job = {}) {
  const auto trace = read_policy_trace(text, job);
  return trace ? "read" : trace.error().reason;
}

}  // namespace

TEST_CASE("the first failure of each round is read from the events of all nodes") {
  const auto trace = read_policy_trace(events, "");
  REQUIRE(trace);
  CHECK(trace->rounds == 3);
  REQUIRE(trace->failures.size() == 2);
  const TracedFailure& first = trace->failures[0];
  CHECK(first.at == t0 + 59400ms);
  CHECK(first.end.life == 59400ms);
  CHECK(first.end.root.rank == Rank{3});
  CHECK(first.end.root.host == "b");
  CHECK(first.end.root.cause == "out_of_memory");
  CHECK(first.end.root.status == link::ExitStatus{true, SIGKILL});
  CHECK_FALSE(first.end.lost);
  CHECK(trace->failures[1].end.lost);
  CHECK(trace->failures[1].end.root.host == "b");
  CHECK(trace->failures[1].at == t0 + 99s);
}

TEST_CASE("a report's attempts are a trace, too") {
  const auto trace = read_policy_trace(
      R"({"version":1,"job":"j","attempts":[
        {"round":1,"restart":0,"began":50.0,"ended":80.0,"reason":"","failure":
          {"rank":2,"host":"h","exit_code":3,"signal":null,"time":79.5,"cause":"silent_exit"}},
        {"round":2,"restart":1,"began":81.0,"ended":99.0,
         "reason":"1 more node joined","failure":null}]})",
      "");
  REQUIRE(trace);
  CHECK(trace->rounds == 2);
  REQUIRE(trace->failures.size() == 1);
  CHECK(trace->failures[0].end.life == 29500ms);
  CHECK(trace->failures[0].end.root.status == link::ExitStatus{false, 3});
}

TEST_CASE("a trace may be invented, and most members are optional") {
  const auto trace = read_policy_trace(
      "{\"at\": 10}\n\n"
      R"({"at": 3600, "cause": "hung", "host": "n7", "rank": 3, "signal": "TERM", "step": 1200,)"
      R"("checkpoint_step": 1000, "life": 5})"
      "\n"
      R"({"at": 3601, "cause": "node_lost", "host": "n8"})",
      "");
  REQUIRE(trace);
  REQUIRE(trace->failures.size() == 3);
  CHECK(trace->failures[0].end.life == 10s);
  CHECK(trace->failures[0].end.root.status == link::ExitStatus{false, 1});
  CHECK(trace->failures[1].end.life == 5s);
  CHECK(trace->failures[1].end.reached == link::Reached{1200, 1000});
  CHECK(trace->failures[1].end.root.status == link::ExitStatus{true, SIGTERM});
  CHECK(trace->failures[2].end.lost);
}

TEST_CASE("an invalid trace is reported with its line, and one with several jobs needs --job") {
  CHECK(why_not("") == "the trace is empty");
  CHECK(why_not("{\"at\": 1}\nhello\n") == "line 2 of the trace is not a JSON object");
  CHECK(why_not("{\"at\": 5}\n{\"at\": 4}") ==
        "line 2 of the trace is earlier than the line before it");
  CHECK(why_not("{\"rank\": 5}") ==
        "line 1 of the trace is neither an event of --events nor a failure with \"at\" in seconds");
  CHECK(why_not("{\"at\": -5}") == "line 1 of the trace: at is not a number of at least 0");
  const std::string two = std::string(events) + R"({"time":1,"event":"x","job":"k","round":1})";
  CHECK(why_not(two) == "the trace has 2 jobs: j, k; choose one with --job");
  CHECK(why_not(two, "j") == "read");
  CHECK(why_not(two, "z") == "the trace does not contain job \"z\"");
  CHECK(why_not(std::string(events) + "{\"at\": 1}") ==
        "the trace mixes events and failures written by hand; use only one kind");
}

TEST_CASE("an invalid invented failure is rejected with its line and member") {
  const auto fault = [](const std::string& members) {
    return why_not("{\"at\": 1, " + members + "}");
  };
  CHECK(fault(R"("exitcode": 75)") == "line 1 of the trace: unknown member \"exitcode\"");
  CHECK(fault(R"("exit_code": "75")").ends_with("exit_code is not a whole number from 1 to 255"));
  CHECK(fault(R"("exit_code": 10000000000)").find("exit_code is not a whole") != std::string::npos);
  CHECK(fault(R"("signal": "SIGFOO")").ends_with("signal is not a signal name, such as SIGKILL"));
  CHECK(
      fault(R"("cause": "hugn")").ends_with("\"hugn\" is not a cause listed in docs/failures.md"));
  CHECK(fault(R"("rank": 1.7)").ends_with("rank is not a whole number of at least 0"));
  CHECK(fault(R"("step": -1)").ends_with("step is not a number of at least 0"));
  CHECK(why_not("{\"at\": 9999999999}").ends_with("at is not a number of at least 0"));
}

TEST_CASE("events that are no failure of a round are skipped") {
  const std::string sealed = R"({"time":1,"event":"round_sealed","job":"j","host":"a","round":1})"
                             "\n";
  // A spare has left, and an operator has requested a new round.
  const auto polite = read_policy_trace(
      sealed +
          R"({"time":2,"event":"node_lost","job":"j","round":1,"changed_node":null}
{"time":3,"event":"worker_failed","job":"j","round":1,"failure":{"rank":0,"cause":"told_to_end"}})",
      "");
  REQUIRE(polite);
  CHECK(polite->failures.empty());
  CHECK(why_not(
            sealed +
            R"({"time":3,"event":"draining","job":"j","round":1,"reason":"rank 1 on b failed"})") ==
        "round 1 ended because rank 1 on b failed, but the trace does not contain that failure; "
        "use the events of all nodes, or the report of the node that hosts the coordinator");
  CHECK(why_not(sealed + R"({"time":3,"event":"job_ended","job":"j","round":1})" + "\n" +
                R"({"time":9,"event":"round_sealed","job":"j","round":1})") ==
        "the trace has several runs of job \"j\"; use a trace of only one");
}

TEST_CASE("a lost node in a report failed when its round ended") {
  const std::string report =
      R"({"job":"train-7","attempts":[{"round":1,"began":50.0,"ended":80.0,"reason":"b is lost",)"
      R"("failure":{"rank":0,"host":"b","exit_code":1,"time":0.0,"cause":"node_lost"}}]})";
  const auto trace = read_policy_trace(report, "tr");
  REQUIRE(trace);
  CHECK(trace->failures[0].at == t0 + 30s);
  CHECK(trace->failures[0].end.lost);
  CHECK(why_not(report, "x") == "the report is for job \"train-7\"");
}

}  // namespace policy_trace_json_test
