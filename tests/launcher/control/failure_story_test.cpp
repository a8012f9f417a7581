// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <doctest/doctest.h>

namespace failure_story_test {

using namespace cpprun;

namespace {

JobView broken() {
  return {.id = "seen",
          .state = "running",
          .now = 1000,
          .since = 940,
          .round = 2,
          .rounds = {{.round = 1,
                      .began = 700,
                      .ended = 930,
                      .failure = FailureView{.rank = 1,
                                             .host = "beta",
                                             .pid = 7,
                                             .exit_code = 137,
                                             .signal = "SIGKILL",
                                             .message = "first\x1b[31m\n\nsecond",
                                             .cause = "out_of_memory"},
                      .consequence_count = 3},
                     {.round = 2, .began = 940}}};
}

}  // namespace

TEST_CASE("a report names the failure of each round, its cause and a hint") {
  const auto text = failure_story(broken(), {});
  CHECK(text.find("\nround 1, 1 min ago: rank 1 on beta: SIGKILL (out_of_memory) (node 0, pid 7)\n"
                  "    why: ") != std::string::npos);
  CHECK(text.find("\n    hint: ") != std::string::npos);
  CHECK(text.find("\n    | first\n    | second\n    3 other workers failed as a consequence\n") !=
        std::string::npos);
  CHECK(text.find("round 2") == text.rfind("round 2"));
}

TEST_CASE("an unknown cause is printed by its id alone") {
  JobView job = broken();
  job.rounds[0].failure->cause = "of_a_newer_one";
  const auto text = failure_story(job, {});
  CHECK(text.find("(of_a_newer_one)") != std::string::npos);
  CHECK(text.find("why: ") == std::string::npos);
}

TEST_CASE(
    "a round without a failed worker has its reason, and a job without failures reports that") {
  JobView job = broken();
  job.rounds[0].failure.reset();
  job.rounds[0].reason = "beta was asked\nto leave";
  const auto text = failure_story(job, {});
  CHECK(text.find("\nround 1, 1 min ago: beta was asked?to leave\n") != std::string::npos);
  CHECK(text.ends_with("\nno worker of this job has failed\n"));
}

TEST_CASE("a failure at the end of the job is printed when no round has it") {
  JobView job = broken();
  job.state = "over";
  job.exit_code = 1;
  job.root = job.rounds[0].failure;
  job.rounds.clear();
  CHECK(failure_story(job, {}).find("\nat the end of the job: rank 1 on beta") !=
        std::string::npos);
}

}  // namespace failure_story_test
