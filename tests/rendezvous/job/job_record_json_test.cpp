// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_record_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/rendezvous/job/recorded_job.h"

namespace job_record_json_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

const ClockPair written{.now = TimePoint{1000h}, .wall = WallTime{std::chrono::hours{500'000}}};

}  // namespace

TEST_CASE("every member of a job record survives a round trip") {
  const JobRecord record = recorded_job(written.now);
  const auto read = read_job_record(job_record_bytes(record, written), written);
  REQUIRE(read);
  CHECK(read->founder == record.founder);
  CHECK(read->owner == record.owner);
  CHECK(read->round == record.round);
  CHECK(read->phase == record.phase);
  CHECK(read->world_size == record.world_size);
  CHECK(read->nodes == record.nodes);
  CHECK(read->sealed_at == record.sealed_at);
  CHECK(read->since == record.since);
  CHECK(read->restarts == record.restarts);
  CHECK(read->round_end == record.round_end);
  CHECK(read->pause_until == record.pause_until);
  CHECK(read->why_again == record.why_again);
  CHECK(read->votes_needed == record.votes_needed);
  CHECK(read->takeover_window == record.takeover_window);
  CHECK(read->finish == record.finish);
  CHECK(read->history == record.history);
  CHECK(read->time == record.time);
  CHECK(read->exclusions == record.exclusions);
  CHECK(read->evicted_nodes == record.evicted_nodes);
}

TEST_CASE("times in a record stay valid after a restart of the monotonic clock") {
  const JobRecord record = recorded_job(written.now);
  // Ten seconds later, on a machine that booted a minute ago.
  const ClockPair later{.now = TimePoint{60s}, .wall = written.wall + 10s};
  const auto read = read_job_record(job_record_bytes(record, written), later);
  REQUIRE(read);
  CHECK(read->sealed_at == later.now - 70s);
  CHECK(read->round_end.at == later.now - 11s);
  CHECK(read->restarts.spent.at("")[0] == later.now - 60s);
  CHECK(*read->exclusions[0].until == later.now + 50s);
}

TEST_CASE("a wall clock that was set back neither delays a job nor repeats the past") {
  const JobRecord record = recorded_job(written.now);
  const ClockPair earlier{.now = written.now, .wall = written.wall - 1000h};
  const auto read = read_job_record(job_record_bytes(record, written), earlier);
  REQUIRE(read);
  CHECK(read->sealed_at == earlier.now);
  CHECK(*read->pause_until <= earlier.now + record.nodes[0].join.restarts.pause_max());
}

TEST_CASE("the writer of a record was alive at its file's time, if that is plausible") {
  JobRecord record = recorded_job(written.now);
  record.sealed_at = written.now - 60s;
  const auto alive = [&](Duration ago) {
    return writer_alive_at(
        record, written.wall - std::chrono::duration_cast<WallTime::duration>(ago), written);
  };
  CHECK(alive(10s) == written.now - 10s);
  CHECK(alive(60s) == written.now - 60s);
  // Of an earlier writer than the record's.
  CHECK_FALSE(alive(61s));
  CHECK_FALSE(writer_alive_at(record, std::nullopt, written));
  // A clock that was set back.
  CHECK(alive(-1000h) == written.now);
}

TEST_CASE("a record is CBOR of an object that names its version") {
  const auto json = nlohmann::json::from_cbor(job_record_bytes(recorded_job(written.now), written));
  CHECK(json.at("cpprund_job") == 1);
  CHECK(json.at("phase") == "draining");
}

}  // namespace job_record_json_test
