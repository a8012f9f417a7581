// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/job_table.h"

#include <doctest/doctest.h>

namespace ended_jobs_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

JobSnapshot job(const std::string& id, int exit_code = 0) {
  return {.terms = {.id = id},
          .state = JobState::over,
          .silence_max = 3s,
          .finish = link::Finish{.exit_code = exit_code}};
}

}  // namespace

TEST_CASE("an ended job is reported for ten minutes, as unwatched") {
  EndedJobs ended;
  ended.add(t0, job("a", 137));
  const auto jobs = ended.told(t0 + 599s);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].terms.id == "a");
  CHECK(jobs[0].finish->exit_code == 137);
  CHECK_FALSE(jobs[0].silence_max);
  CHECK(ended.told(t0 + 600s).empty());
}

TEST_CASE("a name is reported once: a later job of that name replaces the earlier") {
  EndedJobs ended;
  ended.add(t0, job("a", 1));
  ended.add(t0 + 1s, job("b"));
  ended.add(t0 + 2s, job("a", 2));
  const auto jobs = ended.told(t0 + 3s);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].terms.id == "b");
  CHECK(jobs[1].finish->exit_code == 2);
  ended.forget("a");
  CHECK(ended.told(t0 + 3s).size() == 1);
}

TEST_CASE("of very many ended jobs only the last are reported") {
  EndedJobs ended;
  for (std::size_t at = 0; at < ended_jobs_told_max + 5; ++at) {
    ended.add(t0, job("job" + std::to_string(at)));
  }
  const auto jobs = ended.told(t0);
  CHECK(jobs.size() == ended_jobs_told_max);
  CHECK(jobs.front().terms.id == "job5");
}

}  // namespace ended_jobs_test
