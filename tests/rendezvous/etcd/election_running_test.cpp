// SPDX-License-Identifier: BSD-3-Clause
// Who follows, and who wants to lead.

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

// It has a lease, and what would win is asked for and not answered yet.
election::Ask stand_by_hand(Candidate& elector) {
  elector.serve();
  elector.tell(election::Enter{});
  elector.answer(elector.take<etcd::Transaction>());
  elector.answer(elector.take<etcd::Grant>());
  REQUIRE(elector.election().phase() == Phase::standing);
  return elector.take<etcd::Transaction>();
}

}  // namespace

TEST_CASE("the first that wants to lead does so at once, with everything in its place") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  CHECK(alpha.all<election::NobodyLeads>().size() == 1);
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

TEST_CASE("who follows is told who leads, and only what is new") {
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
  CHECK(beta.count<election::NobodyLeads>() == 0);
}

TEST_CASE("who is synced comes first, and who is not a lease later") {
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
  CHECK(gamma.count<election::NobodyLeads>() == 1);
  CHECK_FALSE(gamma.leads());
  // The same for somebody who is synced.
  Candidate beta(etcd, "beta");
  beta.tell(election::Enter{});
  beta.serve();
  CHECK(beta.leads());
  CHECK(beta.last<election::Found>().synced == std::vector<std::string>{"alpha", "beta"});
}

TEST_CASE("where nobody who is synced comes, another one does") {
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

TEST_CASE("of two that stand at once one wins, and the other follows and keeps nothing") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  Candidate beta(etcd, "beta");
  const auto first = stand_by_hand(alpha);
  const auto second = stand_by_hand(beta);
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

TEST_CASE("a win with an old look at who is synced is none") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = stand_by_hand(alpha);
  etcd.change({etcd::Put{table_keys.synced(), to_json(Synced{.names = {"beta"}, .term = 1})}});
  alpha.answer(stands);
  alpha.serve();
  CHECK_FALSE(alpha.leads());
  // It is not synced, and waits.
  alpha.pass(1900ms);
  CHECK_FALSE(alpha.leads());
  alpha.pass(200ms);
  CHECK(alpha.leads());
}

TEST_CASE("a win whose answer is lost is known by its lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = stand_by_hand(alpha);
  etcd.model.ask(etcd.now, 0, stands.request);
  alpha.fail(stands, Kind::silent);
  CHECK(alpha.election().phase() == Phase::finding_out);
  alpha.serve();
  REQUIRE(alpha.leads());
  CHECK(alpha.last<election::Leads>().epoch == etcd.model.find(table_keys.leader())->created);
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("one that was not carried out is asked for again with the same lease") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = stand_by_hand(alpha);
  alpha.fail(stands, Kind::unavailable);
  alpha.answer(alpha.take<etcd::Transaction>());  // a look
  const auto again = alpha.take<etcd::Transaction>();
  CHECK(again.request == stands.request);
  CHECK(again.endpoint != stands.endpoint);
  // The first arrives after all, and then the second.
  etcd.model.ask(etcd.now, 0, stands.request);
  alpha.answer(again);
  alpha.serve();
  CHECK(alpha.leads());
  CHECK(etcd.model.leases() == 1);
}

TEST_CASE("one that is learnt of too late is given up, and the right is never longer for it") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  const auto stands = stand_by_hand(alpha);
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
  const auto late = stand_by_hand(beta);
  etcd.model.ask(etcd.now, 0, late.request);
  const auto epoch = etcd.model.find(table_keys.leader())->created;
  etcd.now += 1950ms;
  beta.fail(late, Kind::silent);
  beta.answer(beta.take<etcd::Transaction>());
  CHECK(beta.election().phase() == Phase::following);
  // What it leads then is another epoch, with another lease.
  beta.serve();
  beta.pass(100ms);
  REQUIRE(beta.leads());
  CHECK(beta.last<election::Leads>().epoch > epoch);
  CHECK(beta.count<election::Leads>() == 1);
}

TEST_CASE("a lease that may have been granted is taken back, and another one asked for") {
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

TEST_CASE("what somebody else has written under its keys stops it, in words") {
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

TEST_CASE("what is left of an earlier life is waited for, and not led by") {
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

TEST_CASE("where etcd has chosen another leader since, the right of the last one is waited for") {
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
  // As the fault of its issue 15247 would end it.
  etcd.model.remove(table_keys.leader());
  beta.pass(2s);
  CHECK_FALSE(beta.leads());
  beta.pass(500ms);
  CHECK(beta.leads());
}

TEST_CASE("who has won and does not lead yet takes nothing from those who had everything") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Publish{{"beta"}, 1});
  alpha.pass(100ms);
  etcd.model.remove(table_keys.leader());  // its lease is over
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
