// SPDX-License-Identifier: BSD-3-Clause
// Which requests are sent, when, and with which timeout.

#include <doctest/doctest.h>

#include "rendezvous/etcd/bounds.h"
#include "tests/rendezvous/etcd/election_table.h"

namespace election_asking_test {

using namespace cpprun;
using namespace cpprun::test;
using test::Candidate;  // rendezvous/job has one, too
using Kind = etcd::Failure::Kind;

TEST_CASE("a follower polls often, so that a successor loses little time") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  CHECK(alpha.election().next_deadline() == etcd.now + 250ms);
  alpha.ring();
  CHECK(alpha.asks().size() == 1);
  CHECK(alpha.asks().front().timeout == bounds::etcd_timeout(2s));
  // Nothing else is due before the response.
  CHECK_FALSE(alpha.election().next_deadline());
}

TEST_CASE("a request to poll during a poll causes another poll") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  alpha.ring();
  const auto before = alpha.take();
  etcd.now += 1ms;
  alpha.tell(election::Attend{});
  CHECK(alpha.asks().empty());
  alpha.answer(before);
  CHECK(alpha.asks().size() == 1);
  alpha.serve();
  CHECK(alpha.election().next_deadline() == etcd.now + bounds::election_eager_look_pause);
}

TEST_CASE("a designated successor polls eagerly for a short time") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  alpha.tell(election::Attend{});
  alpha.serve();
  CHECK(alpha.election().next_deadline() == etcd.now + bounds::election_eager_look_pause);
  etcd.now += bounds::election_eager_time;
  alpha.serve();
  alpha.ring();
  alpha.serve();
  CHECK(alpha.election().next_deadline() == etcd.now + 250ms);
}

TEST_CASE("a candidate polls before it campaigns, because its view may be old") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  etcd.now += 200ms;
  alpha.tell(election::Enter{});
  REQUIRE(alpha.asks().size() == 1);
  CHECK(std::get<etcd::Transaction>(alpha.asks().front().request).compares.empty());
  alpha.answer(alpha.take());
  const auto grant = alpha.take<etcd::Grant>();
  CHECK(std::get<etcd::Grant>(grant.request).ttl_seconds == 2);
  CHECK(std::get<etcd::Grant>(grant.request).lease > 0);
}

TEST_CASE("a leader renews its lease four times per lease, even during a write") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  const auto write = alpha.take();
  CHECK(write.lane == election::Lane::writes);
  const auto begun = etcd.now;
  alpha.ring();
  CHECK(etcd.now <= begun + 500ms);
  const auto keep = alpha.take<etcd::KeepAlive>();
  CHECK(keep.lane == election::Lane::lease);
  alpha.answer(keep);
  alpha.answer(alpha.take<etcd::Transaction>());
  CHECK(alpha.count<election::Renewed>() == 1);
}

TEST_CASE("a large write has a longer timeout") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  CHECK(alpha.asks().front().timeout < bounds::etcd_timeout(2s) + 1ms);
  alpha.serve();
  alpha.tell(election::Keep{"a", std::string(bounds::election_record_bytes_max / 2, 'r'), 2});
  CHECK(alpha.asks().front().timeout >= bounds::etcd_timeout(2s) + 499ms);
}

TEST_CASE("a failed member is followed by the next one, and by a pause if all have failed") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  for (std::size_t member = 0; member < 3; ++member) {
    const auto ask = alpha.take();
    CHECK(ask.endpoint == member);
    alpha.fail(ask, Kind::silent);
  }
  CHECK(alpha.asks().empty());
  CHECK(alpha.election().next_deadline() == etcd.now + bounds::etcd_round_pause);
}

TEST_CASE("the end of the lease is an exact deadline") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.ring();
  const auto keep = alpha.take<etcd::KeepAlive>();
  CHECK(alpha.election().next_deadline() == alpha.last<election::Leads>().until);
}

}  // namespace election_asking_test
