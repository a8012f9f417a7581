// SPDX-License-Identifier: BSD-3-Clause
// Following, and campaigning for leadership.

#include <doctest/doctest.h>

#include "rendezvous/etcd/election_view.h"
#include "tests/rendezvous/etcd/election_table.h"

namespace election_running_test {

using namespace cpprun;
using namespace cpprun::test;
using test::Candidate;  // rendezvous/job has one, too
using Kind = etcd::Failure::Kind;
using Phase = LeaderElection::Phase;

namespace {

// It has a lease, and its campaign request is not answered yet.
election::Ask campaign_by_hand(Candidate& elector) {
  elector.serve();
  elector.tell(election::Enter{});
  elector.answer(elector.take<etcd::Transaction>());
  elector.answer(elector.take<etcd::Grant>());
  REQUIRE(elector.election().phase() == Phase::standing);
  return elector.take<etcd::Transaction>();
}

}  // namespace

TEST_CASE("the first candidate leads at once, with all keys in place") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  CHECK(alpha.all<election::NoLeader>().size() == 1);
  alpha.tell(election::Enter{});
  alpha.serve();
  REQUIRE(alpha.leads());
  CHECK(alpha.last<election::Found>() == election::Found{});
  const auto leads = alpha.last<election::Leads>();
  CHECK(leads.until == etcd.now + 1900ms);
  const auto* const leader = etcd.model.find(table_keys.leader());
  REQUIRE(leader != nullptr);
  CHECK(leader->created == leads.epoch);
  CHECK(leader->lease != etcd::no_lease);
  CHECK(read_leader_card(leader->value) == LeaderCard{"alpha", "card of alpha"});
  CHECK(read_synced(*etcd.value(table_keys.synced())) ==
        Synced{.names = {"alpha"}, .epoch = leads.epoch, .term = 1, .ttl = 2s});
  CHECK(etcd.value(table_keys.cluster())->size() == 32);
}

TEST_CASE("a follower reports the leader, and then only changes") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  Candidate beta(etcd, "beta");
  beta.pass(1s);
  CHECK(beta.all<election::LeaderIs>() ==
        std::vector<election::LeaderIs>{
            {alpha.last<election::Leads>().epoch, "alpha", "card of alpha", {"alpha"}}});
  alpha.tell(election::Publish{{"beta"}, 1});
  alpha.serve();
  beta.pass(300ms);
  CHECK(beta.last<election::LeaderIs>().synced == std::vector<std::string>{"alpha", "beta"});
  CHECK(beta.count<election::NoLeader>() == 0);
}

TEST_CASE("a synced standby leads first, and others wait for one lease more") {
  Etcd etcd;
  {
    Candidate alpha(etcd, "alpha");
    alpha.lead();
    alpha.tell(election::Publish{{"beta"}, 1});
    alpha.serve();
  }
  Candidate gamma(etcd, "gamma");
  gamma.tell(election::Enter{});
  gamma.pass(3s);
  CHECK(gamma.count<election::NoLeader>() == 1);
  CHECK_FALSE(gamma.leads());
  // The same for a synced standby.
  Candidate beta(etcd, "beta");
  beta.tell(election::Enter{});
  beta.serve();
  CHECK(beta.leads());
  CHECK(beta.last<election::Found>().synced == std::vector<std::string>{"alpha", "beta"});
}

TEST_CASE("an unsynced candidate leads if no synced one campaigns") {
  Etcd etcd;
  {
    Candidate alpha(etcd, "alpha");
    alpha.lead();
  }
  Candidate gamma(etcd, "gamma");
  gamma.tell(election::Enter{});
  gamma.pass(4s);
  CHECK_FALSE(gamma.leads());
  gamma.pass(1500ms);
  CHECK(gamma.leads());
}

TEST_CASE("one of two simultaneous candidates wins, and the other follows without a lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  Candidate beta(etcd, "beta");
  const auto first = campaign_by_hand(alpha);
  const auto second = campaign_by_hand(beta);
  CHECK(etcd.model.leases() == 2);
  alpha.answer(first);
  beta.answer(second);
  alpha.serve();
  beta.serve();
  CHECK(alpha.leads());
  CHECK_FALSE(beta.leads());
  CHECK(beta.last<election::LeaderIs>().name == "alpha");
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("a campaign with an outdated list of synced standbys fails") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = campaign_by_hand(alpha);
  etcd.change({etcd::Put{table_keys.synced(), to_json(Synced{.names = {"beta"}, .term = 1})}});
  alpha.answer(stands);
  alpha.serve();
  CHECK_FALSE(alpha.leads());
  // It is not in sync and has to wait.
  alpha.pass(1900ms);
  CHECK_FALSE(alpha.leads());
  alpha.pass(200ms);
  CHECK(alpha.leads());
}

TEST_CASE("a win with a lost response is recognized by its lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = campaign_by_hand(alpha);
  etcd.model.ask(etcd.now, 0, stands.request);
  alpha.fail(stands, Kind::silent);
  CHECK(alpha.election().phase() == Phase::finding_out);
  alpha.serve();
  REQUIRE(alpha.leads());
  CHECK(alpha.last<election::Leads>().epoch == etcd.model.find(table_keys.leader())->created);
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("a campaign request that was not executed is retried with the same lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = campaign_by_hand(alpha);
  alpha.fail(stands, Kind::unavailable);
  alpha.answer(alpha.take<etcd::Transaction>());  // a poll
  const auto again = alpha.take<etcd::Transaction>();
  CHECK(again.request == stands.request);
  CHECK(again.endpoint != stands.endpoint);
  // The first request is executed after all, and then the second.
  etcd.model.ask(etcd.now, 0, stands.request);
  alpha.answer(again);
  alpha.serve();
  CHECK(alpha.leads());
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("a win that is learned of too late is given up, and never extends the lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = campaign_by_hand(alpha);
  const auto granted = etcd.now;
  etcd.model.ask(etcd.now, 0, stands.request);
  etcd.now += 1500ms;
  alpha.fail(stands, Kind::silent);
  alpha.answer(alpha.take<etcd::Transaction>());
  alpha.answer(alpha.take<etcd::Transaction>());  // the records
  alpha.answer(alpha.take<etcd::Transaction>());  // takes over
  REQUIRE(alpha.leads());
  CHECK(alpha.last<election::Leads>().until == granted + 1900ms);

  Candidate beta(etcd, "beta");
  etcd.model.remove(table_keys.leader());
  etcd.model.remove(table_keys.synced());
  const auto late = campaign_by_hand(beta);
  etcd.model.ask(etcd.now, 0, late.request);
  const auto epoch = etcd.model.find(table_keys.leader())->created;
  etcd.now += 1950ms;
  beta.fail(late, Kind::silent);
  beta.answer(beta.take<etcd::Transaction>());
  CHECK(beta.election().phase() == Phase::following);
  // It leads in another epoch, with another lease.
  beta.serve();
  beta.pass(100ms);
  REQUIRE(beta.leads());
  CHECK(beta.last<election::Leads>().epoch > epoch);
  CHECK(beta.count<election::Leads>() == 1);
}

TEST_CASE("a lease that may have been granted is revoked, and another one is requested") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  alpha.tell(election::Enter{});
  alpha.answer(alpha.take<etcd::Transaction>());
  const auto grant = alpha.take<etcd::Grant>();
  etcd.model.ask(etcd.now, 0, grant.request);
  alpha.fail(grant, Kind::silent);
  const auto revoke = alpha.take<etcd::Revoke>();
  CHECK(std::get<etcd::Revoke>(revoke.request).lease == std::get<etcd::Grant>(grant.request).lease);
  alpha.answer(revoke);
  CHECK(etcd.model.leases() == 0);
  alpha.pass(1s);
  CHECK(alpha.leads());
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("a restored etcd is not trusted until it has its data again") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto old = etcd.model.snapshot();
  Candidate beta(etcd, "beta");
  beta.serve();
  alpha.tell(election::Withdraw{});
  alpha.serve();
  beta.tell(election::Enter{});
  beta.pass(3s);
  REQUIRE(beta.leads());
  beta.tell(election::Withdraw{});
  beta.serve();
  const auto newest = etcd.model.snapshot();
  etcd.model.restore(old);
  beta.forget();
  beta.tell(election::Enter{});
  beta.pass(1s);
  CHECK(beta.count<election::Inconsistent>() == 1);
  CHECK(beta.last<election::Inconsistent>().reason.find("restored from an old snapshot") !=
        std::string::npos);
  CHECK(beta.count<election::LeaderIs>() == 0);
  CHECK_FALSE(beta.leads());
  etcd.model.restore(newest);
  beta.pass(1s);
  CHECK(beta.count<election::Unbarred>() == 1);
  CHECK(beta.leads());
}

TEST_CASE("the keys of another cluster are left alone, and so is an emptied etcd") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  const auto cluster = *etcd.value(table_keys.cluster());
  Candidate beta(etcd, "beta");
  beta.tell(election::Enter{});
  beta.pass(100ms);
  REQUIRE(beta.count<election::LeaderIs>() == 1);
  beta.forget();
  etcd.change({etcd::Put{table_keys.cluster(), "0123"}});
  beta.pass(1s);
  CHECK(beta.last<election::Inconsistent>().reason.find("instead of " + cluster) !=
        std::string::npos);
  etcd.change({etcd::Put{table_keys.cluster(), cluster}});
  beta.pass(1s);
  REQUIRE(beta.count<election::Unbarred>() == 1);
  etcd.model.remove(table_keys.cluster());
  beta.forget();
  beta.pass(1s);
  CHECK(beta.last<election::Inconsistent>().reason ==
        "etcd has no data for \"/cpprun/test/\", but had cluster " + cluster +
            " before: it was emptied, or it is another etcd; restart every cpprund of this "
            "cluster");
  CHECK(beta.count<election::LeaderIs>() == 0);
}

TEST_CASE("unknown content under its keys stops a candidate with a reason") {
  Etcd etcd;
  etcd.change({etcd::Put{table_keys.leader(), "hello"}});
  Candidate alpha(etcd, "alpha");
  alpha.tell(election::Enter{});
  alpha.pass(1s);
  CHECK(alpha.last<election::Inconsistent>().reason.find("has unexpected content") !=
        std::string::npos);
  etcd.model.remove(table_keys.leader());
  alpha.pass(1s);
  CHECK(alpha.count<election::Unbarred>() == 1);
  CHECK(alpha.leads());
}

TEST_CASE("a restarted leader waits for the lease of its previous run") {
  Etcd etcd;
  etcd::Revision epoch = 0;
  {
    Candidate alpha(etcd, "alpha");
    alpha.lead();
    epoch = alpha.last<election::Leads>().epoch;
  }
  auto options = options_named("alpha");
  options.seed = 12345;
  Candidate again(etcd, options);
  again.tell(election::Enter{});
  again.pass(1s);
  CHECK_FALSE(again.leads());
  CHECK(again.last<election::LeaderIs>().name == "alpha");
  again.pass(2500ms);
  REQUIRE(again.leads());
  CHECK(again.last<election::Leads>().epoch > epoch);
}

TEST_CASE(
    "after a change of etcd's leader a candidate waits for the whole lease of the last leader") {
  Etcd etcd;
  {
    Candidate alpha(etcd, "alpha");
    alpha.lead();
    alpha.tell(election::Publish{{"beta"}, 1});
    alpha.serve();
  }
  Candidate beta(etcd, "beta");
  beta.serve();
  beta.tell(election::Enter{});
  beta.serve();
  etcd.model.elect_another(etcd.now);
  // As etcd's issue 15247 would end it.
  etcd.model.remove(table_keys.leader());
  beta.pass(2s);
  CHECK_FALSE(beta.leads());
  beta.pass(500ms);
  CHECK(beta.leads());
}

TEST_CASE("a winner that does not lead yet keeps the list of those in sync") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Publish{{"beta"}, 1});
  alpha.pass(100ms);
  etcd.model.remove(table_keys.leader());  // its lease has expired
  Candidate gamma(etcd, "gamma");
  gamma.tell(election::Enter{});
  while (gamma.election().phase() != LeaderElection::Phase::loading) {
    gamma.asks().empty() ? gamma.ring() : gamma.answer(gamma.take());
  }
  const auto synced = read_synced(*etcd.value(table_keys.synced()));
  REQUIRE(synced);
  CHECK(synced->names == std::vector<std::string>{"gamma"});
  CHECK(synced->complete() == std::vector<std::string>{"alpha", "beta"});
  gamma.serve();
  REQUIRE(gamma.leads());
  CHECK(gamma.last<election::Found>().synced == std::vector<std::string>{"alpha", "beta"});
  CHECK(read_synced(*etcd.value(table_keys.synced()))->complete() ==
        std::vector<std::string>{"gamma"});
}

}  // namespace election_running_test
