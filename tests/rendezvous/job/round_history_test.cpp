// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round_outcome.h"

#include <doctest/doctest.h>

#include "proto/link/bounds.h"
#include "rendezvous/job/bounds.h"
#include "tests/rendezvous/job/job_table.h"

namespace round_history_test {

using namespace cpprun;
using namespace cpprun::testing;
using namespace std::chrono_literals;

namespace {

RoundEnd failed(int rank, const std::string& cause, const std::string& message = "boom") {
  RoundEnd end{.reason = "rank failed"};
  end.failures.add({.failure = {.rank = Rank{rank}, .message = message, .cause = cause},
                    .at = t0,
                    .what = "rank failed"});
  return end;
}

}  // namespace

TEST_CASE("a round is remembered with its cause of failure, and counted by cause") {
  RoundHistory history;
  history.sealed(t0 + 1s, RoundNumber{1}, 0);
  REQUIRE(history.list().size() == 1);
  CHECK_FALSE(history.list()[0].ended);
  history.closed(t0 + 5s, failed(3, "out_of_memory"), true);
  history.sealed(t0 + 6s, RoundNumber{2}, 1);
  const auto rounds = history.list();
  REQUIRE(rounds.size() == 2);
  CHECK(rounds[0].ended == t0 + 5s);
  CHECK(rounds[0].root->rank == Rank{3});
  CHECK(rounds[1].restart == 1);
  CHECK(history.failures().at("out_of_memory") == 1);
  CHECK(history.restarts().at("out_of_memory") == 1);
}

TEST_CASE("a round that ended by a membership change is neither a failure nor a restart") {
  RoundHistory history;
  history.sealed(t0, RoundNumber{1}, 0);
  history.closed(t0 + 1s, RoundEnd{.reason = "1 more node joined", .change = true}, false);
  CHECK(history.list()[0].reason == "1 more node joined");
  CHECK(history.failures().empty());
  CHECK(history.restarts().empty());
}

TEST_CASE("of many rounds the first and the last are kept, with the number of omitted ones") {
  RoundHistory history;
  constexpr std::uint32_t count = 100;
  for (std::uint32_t round = 1; round <= count; ++round) {
    history.sealed(t0 + round * 1s, RoundNumber{round}, 0);
    history.closed(t0 + round * 1s, failed(0, ""), true);
  }
  const auto rounds = history.list();
  REQUIRE(rounds.size() == bounds::first_rounds_kept_max + bounds::last_rounds_kept_max);
  CHECK(history.left_out() == count - rounds.size());
  CHECK(rounds[bounds::first_rounds_kept_max - 1].round ==
        RoundNumber{bounds::first_rounds_kept_max});
  CHECK(rounds[bounds::first_rounds_kept_max].round ==
        RoundNumber{count - bounds::last_rounds_kept_max + 1});
  CHECK(rounds.back().round == RoundNumber{count});
  CHECK(history.failures().at("unknown") == count);
}

TEST_CASE("invented causes and long texts stay within bounds") {
  RoundHistory history;
  for (std::uint32_t round = 1; round <= 2 * bounds::causes_counted_max; ++round) {
    history.sealed(t0, RoundNumber{round}, 0);
    history.closed(t0, failed(0, "cause" + std::to_string(round), std::string(4000, 'x')), true);
  }
  CHECK(history.failures().size() == bounds::causes_counted_max + 1);
  CHECK(history.failures().at("other") == bounds::causes_counted_max);
  CHECK(history.list()[0].root->message.size() < bounds::history_message_bytes_max + 8);
}

TEST_CASE("an end before the first round leaves no history") {
  RoundHistory history;
  history.closed(t0, RoundEnd{}, false);
  CHECK(history.list().empty());
}

TEST_CASE("a job remembers its rounds and the time of its last change of state") {
  Table table(1);
  CHECK_FALSE(table.job.since());
  table.seal();
  CHECK(table.job.since() == t0);
  CHECK(table.job.round().find(a)->since == t0);
  table.hear(t0 + 4s, a,
             link::Failed{.round = RoundNumber{1},
                          .failure = {.rank = Rank{1}, .status = {true, 9}, .cause = "killed"}});
  CHECK(table.job.since() == t0 + 4s);
  CHECK(table.job.waits_for(t0 + 4s).find("to stop the workers") != std::string::npos);
  table.hear(t0 + 5s, a, link::Drained{RoundNumber{1}});
  CHECK(table.job.round().find(a)->since == t0 + 5s);
  table.hear(t0 + 6s, b, link::Drained{RoundNumber{1}});
  const auto rounds = table.job.rounds().history().list();
  REQUIRE(rounds.size() == 2);
  CHECK(rounds[0].ended == t0 + 6s);
  CHECK(rounds[0].root->status == link::ExitStatus{true, 9});
  CHECK(rounds[1].restart == 1);
  CHECK(table.job.rounds().history().restarts().at("killed") == 1);
  CHECK(table.job.waits_for(t0 + 6s).empty());
}

}  // namespace round_history_test
