// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round_outcome.h"

#include <doctest/doctest.h>

#include "proto/link/bounds.h"

namespace failures_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

Failures::Entry end_of(int rank, TimePoint at, bool consequence = false, bool lost = false) {
  return {.failure = {.rank = Rank{rank}, .status = {false, 1}, .consequence = consequence},
          .at = at,
          .lost = lost};
}

}  // namespace

TEST_CASE("without failures there is no root cause") {
  CHECK(Failures{}.root() == nullptr);
  CHECK(Failures{}.consequence_count() == 0);
}

TEST_CASE("the earliest failure is the root, in whatever order the failures arrive") {
  Failures failures;
  failures.add(end_of(1, t0 + 2s));
  failures.add(end_of(2, t0 + 1s));
  failures.add(end_of(3, t0 + 3s));
  CHECK(failures.root()->failure.rank == Rank{2});
  CHECK(failures.consequences()[0].rank == Rank{1});
  CHECK(failures.consequences()[1].rank == Rank{3});
}

TEST_CASE(
    "a known consequence is not the root while another failure exists, however early it was") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s, true));
  CHECK(failures.root()->failure.rank == Rank{1});
  failures.add(end_of(2, t0 + 9s));
  CHECK(failures.root()->failure.rank == Rank{2});
}

TEST_CASE(
    "a failure noticed after a node was asked to drain is not the root, whatever the clocks say") {
  Failures failures;
  auto late = end_of(1, t0 + 1s);
  late.late = true;
  failures.add(late);
  failures.add(end_of(2, t0 + 1s + 5ms));
  CHECK(failures.root()->failure.rank == Rank{2});
}

TEST_CASE("a late death precedes failures that are only its effect on other nodes") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s, true));
  auto late = end_of(3, t0 + 2s);
  late.late = true;
  failures.add(late);
  CHECK(failures.root()->failure.rank == Rank{3});
}

TEST_CASE("a lost node precedes the failures of its peers, even at the same time") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s));
  failures.add(end_of(6, t0 + 1s, false, true));
  CHECK(failures.root()->lost);
}

TEST_CASE(
    "failures of one node stay in the order in which it noticed them, whatever its clock offset") {
  const auto noticed = [](int rank, link::AgentTime moment, TimePoint at, TimePoint heard) {
    auto entry = end_of(rank, at);
    entry.failure.group_rank = GroupRank{1};
    entry.noticed = moment;
    entry.heard = heard;
    return entry;
  };
  Failures failures;
  failures.add(end_of(0, t0 + 13ms));
  failures.add(noticed(4, 100ms, t0 + 15ms, t0 + 15ms));
  // A faster heartbeat has since shown that the node's times were 8 ms earlier than assumed.
  const auto at = [](link::AgentTime moment) { return TimePoint{moment - 93ms}; };
  failures.realign(GroupRank{1}, at);
  failures.add(noticed(3, 103ms, at(103ms), t0 + 24ms));
  CHECK(failures.root()->failure.rank == Rank{4});
  CHECK(failures.consequences()[0].rank == Rank{3});
  CHECK(failures.consequences()[1].rank == Rank{0});
  // No failure is later than the message that reported it.
  failures.realign(GroupRank{1}, [](link::AgentTime) { return t0 + 1h; });
  CHECK(failures.root()->failure.rank == Rank{0});
  CHECK(failures.consequences()[0].rank == Rank{4});
}

TEST_CASE("a worker that is reported twice is counted once") {
  Failures failures;
  failures.add(end_of(1, t0));
  failures.add(end_of(1, t0 + 1s));
  CHECK(failures.consequence_count() == 0);
}

TEST_CASE("of very many failures only some are kept, with the root, but all are counted") {
  Failures failures;
  for (int rank = 1; rank <= 1000; ++rank) failures.add(end_of(rank, t0 + 2s, true));
  failures.add(end_of(0, t0 + 5s));
  CHECK(failures.root()->failure.rank == Rank{0});
  CHECK(failures.consequences().size() == bounds::consequences_max);
  CHECK(failures.consequence_count() == 1000);
}

TEST_CASE("failures after a given time are dropped, but a lost node is not") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s));
  failures.add(end_of(2, t0 + 2s));
  failures.add(end_of(3, t0 + 2s, false, true));
  failures.drop_ends_after(t0 + 1s);
  CHECK(failures.root()->failure.rank == Rank{1});
  REQUIRE(failures.consequence_count() == 1);
  CHECK(failures.consequences()[0].rank == Rank{3});
  failures.drop_ends_after(t0);
  CHECK(failures.root()->failure.rank == Rank{3});
  CHECK(failures.consequence_count() == 0);
}

namespace {

Failures::Entry missed_at(int rank, TimePoint at, const char* cause = "peer_gone") {
  auto entry = end_of(rank, at, true);
  entry.failure.cause = cause;
  entry.failure.consequence = std::string_view(cause) != "peer_missing";
  return entry;
}

Failures::Entry leaver_at(int rank, TimePoint at) {
  auto entry = end_of(rank, at);
  entry.failure.cause = left_early;
  return entry;
}

}  // namespace

TEST_CASE("if all ranks only lost a peer, the root is the rank that ended with 0 before") {
  for (const char* cause : {"peer_gone", "peer_silent", "store_gone", "peer_missing"}) {
    Failures failures;
    failures.add_leaver(leaver_at(7, t0 + 3s));
    CHECK(failures.root() == nullptr);
    auto first = missed_at(1, t0 + 4s, cause);
    first.failure.status.value = 9;
    failures.add(missed_at(2, t0 + 5s));
    failures.add(first);
    failures.add_leaver(leaver_at(3, t0 + 1s));
    CAPTURE(cause);
    CHECK(failures.root()->failure.rank == Rank{3});
    CHECK(failures.root()->failure.cause == left_early);
    CHECK(failures.consequence_count() == 2);
    CHECK(failures.consequences()[0].rank == Rank{1});
    CHECK(failures.consequences()[1].rank == Rank{2});
    // The exit code of the job, and for how long the other ranks had computed.
    CHECK(failures.root()->failure.status.value == 9);
    CHECK(failures.root()->at == t0 + 4s);
  }
}

TEST_CASE("a rank that ended with 0 is not blamed for an independent or earlier failure") {
  Failures failures;
  failures.add_leaver(leaver_at(3, t0 + 1s));
  failures.add(missed_at(1, t0 + 4s));
  failures.add(end_of(2, t0 + 5s));
  CHECK(failures.root()->failure.rank == Rank{2});
  CHECK(failures.consequence_count() == 1);
  failures.clear();
  CHECK(failures.root() == nullptr);
  failures.add(missed_at(1, t0 + 4s));
  failures.add_leaver(leaver_at(3, t0 + 5s));
  CHECK(failures.root()->failure.rank == Rank{1});
  failures.clear();
  failures.add(missed_at(1, t0 + 4s, "pipe_closed"));
  failures.add_leaver(leaver_at(3, t0 + 1s));
  CHECK(failures.root()->failure.rank == Rank{1});
}

TEST_CASE("a lost node is the root although a rank had ended with 0 before") {
  Failures failures;
  failures.add_leaver(leaver_at(3, t0 + 1s));
  failures.add(missed_at(1, t0 + 4s));
  failures.add(end_of(6, t0 + 4s, false, true));
  CHECK(failures.root()->lost);
}

}  // namespace failures_test
