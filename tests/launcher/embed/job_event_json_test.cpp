// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/embed/job_event_json.h"

#include <doctest/doctest.h>

#include <string>

using cpprun::read_job_event;

TEST_CASE("an event of a worker has its ranks and its exit") {
  const std::string line =
      R"({"time":12.5,"event":"worker_exited","job":"j","host":"h","node":1,"round":2,"rank":3,)"
      R"("local_rank":0,"pid":77,"exit_code":137,"signal":"SIGKILL"})";
  const auto event = read_job_event(line);
  REQUIRE(event);
  CHECK(event->name == "worker_exited");
  CHECK(event->time == 12.5);
  CHECK(event->job == "j");
  CHECK(event->host == "h");
  CHECK(event->node == 1);
  CHECK(event->round == 2);
  CHECK(event->rank == 3);
  CHECK(event->local_rank == 0);
  CHECK(event->pid == 77);
  CHECK(event->exit_code == 137);
  CHECK(event->signal == "SIGKILL");
  CHECK_FALSE(event->cause);
  CHECK(event->json == line);
}

TEST_CASE("an event with a failure has its cause, and keeps its own exit code") {
  const auto event = read_job_event(
      R"({"time":1,"event":"job_ended","job":"j","host":"h","node":0,"round":1,"exit_code":1,)"
      R"("reason":"rank 1 failed","root":{"rank":1,"local_rank":1,"pid":5,"exit_code":3,)"
      R"("signal":"SIGHUP","cause":"silent_exit","reason":"it exited","advice":"run it alone",)"
      R"("message":"bad","consequence":true}})");
  REQUIRE(event);
  CHECK(event->exit_code == 1);
  CHECK(event->reason == "rank 1 failed");
  CHECK(event->rank == 1);
  CHECK(event->pid == 5);
  CHECK_FALSE(event->signal);
  CHECK(event->cause == "silent_exit");
  CHECK(event->description == "it exited");
  CHECK(event->hint == "run it alone");
  CHECK(event->message == "bad");
  CHECK(event->is_consequence);
}

TEST_CASE("an event without a failure has none") {
  const auto event = read_job_event(
      R"({"time":1,"event":"job_ended","job":"j","exit_code":0,"reason":"done","root":null})");
  REQUIRE(event);
  CHECK_FALSE(event->rank);
  CHECK_FALSE(event->cause);
  CHECK_FALSE(event->is_consequence);
  CHECK(event->host.empty());
  CHECK_FALSE(event->node);
}

TEST_CASE("a line that is not an event is ignored") {
  for (const char* const line : {"", "{", "[1]", "null", R"({"time":1})", R"({"event":7})"}) {
    CAPTURE(line);
    CHECK_FALSE(read_job_event(line));
  }
}
