// SPDX-License-Identifier: BSD-3-Clause
// The leader's lease, and how it ends.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/election_view.h"
#include "rendezvous/etcd/leader_lease.h"
#include "tests/rendezvous/etcd/election_table.h"

namespace election_leading_test {

using namespace cpprun;
using namespace cpprun::test;
using test::Candidate;  // rendezvous/job has one, too
using Kind = etcd::Failure::Kind;
using Phase = LeaderElection::Phase;

TEST_CASE("a lease is renewed from the time of the request") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto until = alpha.last<election::Leads>().until;
  alpha.ring();
  const auto asked = etcd.now;
  const auto keep = alpha.take<etcd::KeepAlive>();
  etcd.now += 300ms;
  alpha.answer(keep);
  CHECK(alpha.count<election::Renewed>() == 0);
  etcd.now += 100ms;
  alpha.answer(alpha.take<etcd::Transaction>());  // checks that the key still exists
  REQUIRE(alpha.count<election::Renewed>() == 1);
  CHECK(alpha.last<election::Renewed>().until == asked + 1900ms);
  CHECK(alpha.last<election::Renewed>().until > until);
}

TEST_CASE("a lease that is not renewed ends at its deadline, whatever arrives at that moment") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto until = alpha.last<election::Leads>().until;
  alpha.ring();
  const auto keep = alpha.take<etcd::KeepAlive>();
  CHECK(alpha.election().next_deadline() == until);
  etcd.now = until;
  // The response arrives at the same moment, too late.
  alpha.answer(keep);
  REQUIRE(alpha.count<election::Deposed>() == 1);
  CHECK(alpha.last<election::Deposed>().reason ==
        "etcd has not confirmed the leader's lease for 1.9 s");
  CHECK_FALSE(alpha.last<election::Deposed>().is_orderly);
  CHECK_FALSE(alpha.leads());
}

TEST_CASE("the reason of a deposal includes the last response of etcd") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  while (alpha.count<election::Deposed>() == 0) {
    alpha.ring();
    while (!alpha.asks().empty()) {
      const auto ask = alpha.take();
      etcd.now += 100ms;
      alpha.fail(ask, Kind::unavailable, "etcdserver: no leader");
    }
  }
  const auto reason = alpha.last<election::Deposed>().reason;
  CHECK(reason.find("etcd has not confirmed the leader's lease for") == 0);
  CHECK(reason.find("no quorum (\"etcdserver: no leader\")") != std::string::npos);
  CHECK(alpha.count<election::Unreachable>() == 1);
}

TEST_CASE(
    "a leader that is deposed by its clock resigns, so that no candidate waits for its lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto epoch = alpha.last<election::Leads>().epoch;
  etcd.now = alpha.last<election::Leads>().until;
  alpha.advance();
  REQUIRE(alpha.count<election::Deposed>() == 1);
  alpha.answer(alpha.take());
  CHECK(etcd.model.find(table_keys.leader()) == nullptr);
  const auto synced = read_synced(*etcd.value(table_keys.synced()));
  CHECK(synced->is_vacant);
  CHECK(synced->epoch == epoch);
  alpha.serve();
  alpha.pass(100ms);
  CHECK(alpha.leads());  // It is still a candidate, and the only one.
  CHECK(alpha.last<election::Leads>().epoch > epoch);
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("a leader is deposed when its lease and its key are gone") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto lease = etcd.model.find(table_keys.leader())->lease;
  etcd.model.ask(etcd.now, 0, etcd::Revoke{lease});
  alpha.pass(600ms);
  REQUIRE(alpha.count<election::Deposed>() == 1);
  CHECK(alpha.last<election::Deposed>().reason ==
        "the leader's key in etcd is gone: its lease has ended, or the key was deleted");
}

TEST_CASE("a member that does not know the lease does not depose the leader while the key exists") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.ring();
  const auto keep = alpha.take<etcd::KeepAlive>();
  const auto lease = std::get<etcd::KeepAlive>(keep.request).lease;
  alpha.tell(election::Answered{keep.id, etcd::KeptAlive{{}, lease, 0}});
  alpha.answer(alpha.take<etcd::Transaction>());
  CHECK(alpha.leads());
  alpha.pass(500ms);
  CHECK(alpha.count<election::Renewed>() > 0);
}

TEST_CASE("a leader that sees another leader is deposed at once") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  etcd.model.remove(table_keys.leader());
  etcd.change({etcd::Put{table_keys.leader(), to_json(LeaderCard{"beta", ""})}});
  alpha.pass(600ms);
  REQUIRE(alpha.count<election::Deposed>() == 1);
  CHECK(alpha.last<election::Deposed>().reason.find("\"beta\" has been the leader since epoch") ==
        0);
  CHECK(alpha.last<election::LeaderIs>().name == "beta");
}

TEST_CASE("a leader is deposed when the cluster id changes") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.pass(600ms);
  etcd.change({etcd::Put{table_keys.cluster(), "another"}});
  alpha.pass(600ms);
  CHECK(alpha.count<election::Deposed>() == 1);
  CHECK(alpha.count<election::Inconsistent>() == 1);
}

TEST_CASE("in a new raft term the key moves to a new lease, and the old lease is revoked") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto before = *etcd.model.find(table_keys.leader());
  etcd.model.elect_another(etcd.now);
  alpha.pass(1500ms);
  REQUIRE(alpha.leads());
  const auto after = *etcd.model.find(table_keys.leader());
  CHECK(after.created == before.created);
  CHECK(after.lease != before.lease);
  CHECK(etcd.model.leases() == 1);
  CHECK(read_synced(*etcd.value(table_keys.synced()))->term == etcd.model.term());
  alpha.pass(5s);
  CHECK(alpha.leads());
}

TEST_CASE("the old lease counts until the key has moved") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  etcd.model.elect_another(etcd.now);
  while (alpha.asks().empty() ||
         !std::holds_alternative<etcd::Grant>(alpha.asks().front().request)) {
    alpha.ring();
    while (!alpha.asks().empty() &&
           !std::holds_alternative<etcd::Grant>(alpha.asks().front().request)) {
      alpha.answer(alpha.take());
    }
  }
  const auto until = alpha.last<election::Renewed>().until;
  etcd.now += 50ms;
  alpha.answer(alpha.take<etcd::Grant>());
  const auto move = alpha.take<etcd::Transaction>();
  alpha.fail(move, Kind::silent);
  const auto again = alpha.take<etcd::Transaction>();
  CHECK(again.request == move.request);
  alpha.forget();
  alpha.fail(again, Kind::silent);
  alpha.answer(alpha.take<etcd::Transaction>());
  // The key has moved: the new lease counts, and it is not shorter.
  REQUIRE(alpha.count<election::Renewed>() == 1);
  CHECK(alpha.last<election::Renewed>().until >= until);
}

TEST_CASE("a winner reads all records, page by page, before it leads") {
  Etcd etcd;
  std::vector<etcd::Operation> records;
  for (int each = 0; each < 40; ++each) {
    records.emplace_back(etcd::Put{table_keys.record(fmt::format("job{:02}", each)),
                                   fmt::format("record {}", each)});
  }
  etcd.change(std::move(records));
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto found = alpha.last<election::Found>();
  REQUIRE(found.records.size() == 40);
  CHECK(found.records.at("job39") == "record 39");
  // `Found` comes right before `Leads`.
  const auto& said = alpha.said();
  for (std::size_t at = 0; at < said.size(); ++at) {
    if (!std::holds_alternative<election::Found>(said[at])) continue;
    REQUIRE(at + 1 < said.size());
    CHECK(std::holds_alternative<election::Leads>(said[at + 1]));
  }
}

TEST_CASE("a winner that cannot read the records in time never leads") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.tell(election::Enter{});
  while (alpha.election().phase() != Phase::loading) alpha.answer(alpha.take());
  const auto load = alpha.take<etcd::Transaction>();
  etcd.now += 1900ms;
  alpha.advance();
  CHECK(alpha.count<election::Leads>() == 0);
  CHECK(alpha.count<election::Deposed>() == 0);
  alpha.answer(load);
  CHECK(alpha.count<election::Leads>() == 0);
}

TEST_CASE("a winner that renews its lease while it reads leads for the renewed time") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.tell(election::Enter{});
  while (alpha.election().phase() != Phase::loading) alpha.answer(alpha.take());
  const auto load = alpha.take<etcd::Transaction>();
  alpha.ring();
  const auto asked = etcd.now;
  alpha.answer(alpha.take<etcd::KeepAlive>());
  alpha.answer(alpha.take<etcd::Transaction>());
  CHECK(alpha.count<election::Renewed>() == 0);
  alpha.answer(load);
  alpha.answer(alpha.take<etcd::Transaction>());  // takes over
  CHECK(alpha.last<election::Leads>().until == asked + 1900ms);
}

// --- slow etcd, and a leader that is killed ------------------------------------------------------

namespace {

ElectionOptions options_with_default_lease() {
  auto options = options_named("alpha");
  options.ttl = bounds::election_ttl;
  return options;
}

}  // namespace

TEST_CASE("with the default lease an etcd that responds within two seconds deposes no leader") {
  Etcd etcd;
  Candidate alpha(etcd, options_with_default_lease());
  alpha.lead();
  alpha.pass_slowly(14s, 500ms);
  CHECK(alpha.count<election::Deposed>() == 0);
  CHECK(alpha.count<election::Unreachable>() == 0);
  alpha.pass_slowly(60s, 2s);
  CHECK(alpha.count<election::Deposed>() == 0);
  CHECK(alpha.leads());
}

TEST_CASE("with the default lease an etcd that is silent for seven seconds deposes no leader") {
  for (int phase = 0; phase < 20; ++phase) {
    Etcd etcd;
    Candidate alpha(etcd, options_with_default_lease());
    alpha.lead();
    alpha.pass(phase * 100ms);
    alpha.pass_slowly(7s, std::nullopt);
    CHECK(alpha.count<election::Unreachable>() == 1);
    CHECK(alpha.last<election::Unreachable>().silence >= 1s);
    alpha.pass(1s);
    CHECK(alpha.count<election::Deposed>() == 0);
    CHECK(alpha.count<election::Reachable>() == 1);
    CHECK(alpha.leads());
  }
}

TEST_CASE("the prepared resignation of a leader lists the synced standbys before etcd does") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  REQUIRE(alpha.count<election::Will>() == 1);
  CHECK(alpha.last<election::Will>().epoch == alpha.last<election::Leads>().epoch);
  CHECK(read_synced(alpha.last<election::Will>().synced)->names ==
        std::vector<std::string>{"alpha"});
  alpha.tell(election::Publish{{"beta"}, 1});
  REQUIRE(alpha.count<election::Will>() == 2);
  CHECK(alpha.count<election::Written>() == 0);
  const auto synced = read_synced(alpha.last<election::Will>().synced);
  CHECK(synced->names == std::vector<std::string>{"alpha", "beta"});
  CHECK(synced->is_vacant);
}

TEST_CASE("a standby leads without waiting for the lease after the prepared resignation was sent") {
  Etcd etcd;
  Candidate alpha(etcd, options_with_default_lease());
  alpha.lead();
  alpha.tell(election::Publish{{"beta"}, 1});
  alpha.serve();
  auto options = options_with_default_lease();
  options.name = "beta";
  Candidate beta(etcd, options);
  beta.tell(election::Enter{});
  beta.serve();
  REQUIRE_FALSE(beta.leads());
  const auto will = alpha.last<election::Will>();
  (void)etcd.model.ask(etcd.now, 0, resignation(table_keys, will.epoch, will.synced));
  beta.pass(300ms);
  CHECK(beta.leads());
  // A resignation of an earlier epoch changes nothing.
  (void)etcd.model.ask(etcd.now, 0, resignation(table_keys, will.epoch, will.synced));
  beta.pass(11s);
  CHECK(beta.leads());
}

TEST_CASE("a full etcd is reported once, even if nothing is written") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.pass(30s);
  CHECK(alpha.count<election::Unwritable>() == 0);
  etcd.model.fill(true);
  alpha.pass(30s);
  REQUIRE(alpha.count<election::Unwritable>() == 1);
  CHECK(alpha.last<election::Unwritable>().is_refused);
  CHECK(alpha.last<election::Unwritable>().reason.find("alarm NOSPACE is raised") !=
        std::string::npos);
  CHECK(alpha.leads());
  etcd.model.fill(false);
  alpha.pass(30s);
  CHECK(alpha.count<election::Writable>() == 1);
  CHECK(alpha.count<election::Unwritable>() == 1);
}

}  // namespace election_leading_test
