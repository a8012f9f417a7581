// SPDX-License-Identifier: BSD-3-Clause
// What a leader writes, and how it resigns.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/election_view.h"
#include "tests/rendezvous/etcd/election_table.h"

namespace election_writing_test {

using namespace cpprun;
using namespace cpprun::test;
using test::Candidate;  // rendezvous/job has one, too
using Kind = etcd::Failure::Kind;

namespace {

std::optional<std::string> record(const Etcd& etcd, const std::string& name) {
  return etcd.value(table_keys.record(name));
}

}  // namespace

TEST_CASE("a record is in etcd when it is reported as written") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  CHECK_FALSE(record(etcd, "a"));
  CHECK(alpha.count<election::Written>() == 0);
  alpha.serve();
  CHECK(record(etcd, "a") == "1");
  CHECK(alpha.last<election::Written>().through == 1);
  alpha.tell(election::Drop{"a", 2});
  alpha.serve();
  CHECK_FALSE(record(etcd, "a"));
  CHECK(alpha.last<election::Written>().through == 2);
}

TEST_CASE("during a write other changes wait, and only the last one of each record is written") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  for (std::uint64_t number = 2; number <= 100; ++number) {
    alpha.tell(election::Keep{"b", fmt::format("{}", number), number});
  }
  REQUIRE(alpha.asks().size() == 1);
  alpha.answer(alpha.take());
  CHECK(alpha.last<election::Written>().through == 1);
  REQUIRE(alpha.asks().size() == 1);
  alpha.answer(alpha.take());
  CHECK(record(etcd, "b") == "100");
  CHECK(alpha.last<election::Written>().through == 100);
  CHECK(alpha.count<election::Written>() == 2);
}

TEST_CASE("a change with an unknown outcome is retried unchanged") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  const auto first = alpha.take();
  etcd.model.ask(etcd.now, 0, first.request);
  alpha.tell(election::Keep{"a", "2", 2});
  alpha.fail(first, Kind::silent);
  const auto again = alpha.take();
  CHECK(again.request == first.request);
  CHECK(again.endpoint != first.endpoint);
  alpha.answer(again);
  CHECK(alpha.last<election::Written>().through == 1);
  alpha.serve();
  CHECK(record(etcd, "a") == "2");
  // The first request is executed once more, too late.
  etcd.model.ask(etcd.now, 0, first.request);
  CHECK(record(etcd, "a") == "2");
}

TEST_CASE("a leader changes nothing after another one has won") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  etcd.model.remove(table_keys.leader());
  etcd.change({etcd::Put{table_keys.leader(), to_json(LeaderCard{"beta", ""})}});
  alpha.tell(election::Keep{"a", "1", 1});
  alpha.answer(alpha.take());
  CHECK_FALSE(record(etcd, "a"));
  CHECK(alpha.count<election::Written>() == 0);
  REQUIRE(alpha.count<election::Deposed>() == 1);
  CHECK(alpha.last<election::Deposed>().reason ==
        "etcd rejected a write of the leader: another cpprund is the leader");
}

TEST_CASE("the published list of synced standbys includes the leader") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Publish{{"beta", "alpha", "beta"}, 1});
  alpha.serve();
  const auto synced = read_synced(*etcd.value(table_keys.synced()));
  CHECK(synced->names == std::vector<std::string>{"alpha", "beta"});
  CHECK(synced->epoch == alpha.last<election::Leads>().epoch);
  CHECK(alpha.last<election::Written>().through == 1);
}

TEST_CASE("a change that exceeds a limit is rejected with a reason and not waited for") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", std::string(bounds::election_record_bytes_max + 1, 'r'), 1});
  REQUIRE(alpha.count<election::NotWritten>() == 1);
  CHECK(alpha.last<election::NotWritten>().number == 1);
  CHECK(alpha.last<election::NotWritten>().reason.find("has 1048577 bytes") != std::string::npos);
  CHECK(alpha.last<election::Written>().through == 1);
  alpha.tell(election::Keep{"", "1", 2});
  alpha.tell(election::Drop{std::string(300, 'n'), 3});
  alpha.tell(election::Publish{{std::string(300, 'n')}, 4});
  alpha.tell(election::Publish{std::vector<std::string>(1, ""), 5});
  std::vector<std::string> many;
  for (int each = 0; each < 40; ++each) many.push_back(fmt::format("{}", each));
  alpha.tell(election::Publish{many, 6});
  CHECK(alpha.count<election::NotWritten>() == 6);
  CHECK(alpha.asks().empty());
  // A number that does not increase could not be acknowledged.
  alpha.tell(election::Keep{"a", "1", 6});
  CHECK(alpha.last<election::NotWritten>() ==
        election::NotWritten{6, "request numbers must increase"});
  alpha.tell(election::Keep{"a", "1", 7});
  alpha.serve();
  CHECK(alpha.last<election::Written>().through == 7);
}

TEST_CASE("a follower writes nothing") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  alpha.tell(election::Keep{"a", "1", 1});
  CHECK(alpha.last<election::NotWritten>() == election::NotWritten{1, "not the leader"});
  CHECK(alpha.count<election::Written>() == 0);
  alpha.tell(election::HandOver{"beta"});
  CHECK(alpha.last<election::NotHandedOver>().reason ==
        "cannot transfer leadership to \"beta\": not the leader");
}

TEST_CASE(
    "a rejected batch is retried one by one, and a change that is rejected alone is reported") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  const auto first = alpha.take();
  alpha.tell(election::Keep{"b", "1", 2});
  alpha.tell(election::Keep{"c", "1", 3});
  alpha.answer(first);
  const auto both = alpha.take();
  alpha.fail(both, Kind::rejected, "etcdserver: request is too large");
  etcd.now += bounds::etcd_round_pause;
  alpha.advance();
  const auto alone = alpha.take();
  CHECK(std::get<etcd::Transaction>(alone.request).success.size() == 2);
  alpha.fail(alone, Kind::rejected, "etcdserver: request is too large");
  REQUIRE(alpha.count<election::NotWritten>() == 1);
  CHECK(alpha.last<election::NotWritten>().number == 2);
  CHECK(alpha.last<election::NotWritten>().reason.find("request is too large") !=
        std::string::npos);
  etcd.now += bounds::etcd_round_pause;
  alpha.advance();
  alpha.answer(alpha.take());
  CHECK(record(etcd, "c") == "1");
  CHECK_FALSE(record(etcd, "b"));
  CHECK(alpha.last<election::Written>().through == 3);
}

TEST_CASE("a leader stays the leader while etcd is full, and writes when it has space again") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  for (int each = 0; each < 30; ++each) {
    alpha.fail(alpha.take<etcd::Transaction>(), Kind::no_space, "space exceeded");
    while (alpha.asks().empty() || !std::ranges::any_of(alpha.asks(), [](const auto& ask) {
             return ask.lane == election::Lane::writes;
           })) {
      if (alpha.asks().empty()) alpha.ring();
      if (!alpha.asks().empty() && alpha.asks().front().lane == election::Lane::lease) {
        alpha.answer(alpha.take());
      }
    }
  }
  CHECK(etcd.now > TimePoint{} + 4s);
  CHECK(alpha.leads());
  CHECK(alpha.count<election::Unwritable>() == 1);
  CHECK(alpha.last<election::Unwritable>().reason.find("is out of space") != std::string::npos);
  CHECK(alpha.last<election::Unwritable>().is_refused);
  alpha.serve();
  CHECK(alpha.count<election::Writable>() == 1);
  CHECK(alpha.last<election::Written>().through == 1);
}

TEST_CASE("a leader that transfers leadership decides nothing before its successor can") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  Candidate beta(etcd, "beta");
  Candidate gamma(etcd, "gamma");
  for (Candidate* each : {&beta, &gamma}) {
    each->tell(election::Enter{});
    each->serve();
  }
  alpha.tell(election::Publish{{"beta", "gamma"}, 1});
  alpha.serve();
  alpha.tell(election::Keep{"a", "1", 2});
  alpha.tell(election::HandOver{"beta"});
  CHECK(alpha.last<election::Deposed>() ==
        election::Deposed{"leadership was transferred to \"beta\"", /*is_orderly=*/true});
  CHECK(etcd.model.find(table_keys.leader()) != nullptr);
  alpha.serve();
  // Earlier changes are written, and later ones are not.
  CHECK(record(etcd, "a") == "1");
  CHECK(alpha.last<election::Written>().through == 2);
  CHECK(etcd.model.find(table_keys.leader()) == nullptr);
  CHECK(etcd.model.leases() == 0);
  gamma.pass(300ms);
  CHECK_FALSE(gamma.leads());
  CHECK(gamma.last<election::NoLeader>().successor == "beta");
  beta.pass(300ms);
  CHECK(beta.leads());
  alpha.pass(300ms);
  CHECK(alpha.last<election::LeaderIs>().name == "beta");
}

TEST_CASE("leadership is transferred only to a standby that is in sync") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  for (const char* name : {"beta", "alpha"}) {
    alpha.tell(election::HandOver{name});
    CHECK(alpha.leads());
    CHECK(alpha.last<election::NotHandedOver>().reason ==
          fmt::format("etcd has not recorded yet that \"{}\" is in sync", name));
  }
}

namespace {

ElectionOptions passing(const std::string& name) {
  auto options = options_named(name);
  options.leaves_nothing = true;
  return options;
}

}  // namespace

TEST_CASE("an election that leaves nothing removes its keys, even with a standby") {
  Etcd etcd;
  Candidate alpha(etcd, passing("alpha"));
  alpha.tell(election::Enter{});
  alpha.pass(1s);
  REQUIRE(alpha.leads());
  alpha.tell(election::Publish{{"beta"}, 1});
  Candidate beta(etcd, passing("beta"));
  beta.pass(1s);
  const auto before = etcd.value(table_keys.cluster());
  alpha.tell(election::Withdraw{});
  alpha.pass(1s);
  for (const auto& key :
       {table_keys.leader(), table_keys.synced(), table_keys.turn(), table_keys.cluster()}) {
    CHECK_FALSE(etcd.value(key));
  }
  // A standby starts anew without an objection.
  beta.tell(election::Enter{});
  beta.pass(5s);
  CHECK(beta.leads());
  CHECK(beta.count<election::Inconsistent>() == 0);
  CHECK(etcd.value(table_keys.cluster()) != before);
}

TEST_CASE("the keys stay if there is a record") {
  Etcd etcd;
  Candidate alpha(etcd, passing("alpha"));
  alpha.tell(election::Enter{});
  alpha.pass(1s);
  REQUIRE(alpha.leads());
  alpha.tell(election::Keep{"job", "bytes", 1});
  alpha.pass(1s);
  alpha.tell(election::Withdraw{});
  alpha.pass(1s);
  CHECK_FALSE(etcd.value(table_keys.leader()));
  CHECK(etcd.value(table_keys.synced()));
  CHECK(etcd.value(table_keys.cluster()));
}

TEST_CASE("a leader that withdraws revokes its lease before it reports that") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Keep{"a", "1", 1});
  alpha.tell(election::Withdraw{});
  CHECK(alpha.last<election::Deposed>().is_orderly);
  CHECK(alpha.count<election::Withdrawn>() == 0);
  alpha.serve();
  CHECK(alpha.count<election::Withdrawn>() == 1);
  CHECK(etcd.model.leases() == 0);
  CHECK(record(etcd, "a") == "1");
  alpha.pass(5s);
  CHECK_FALSE(alpha.leads());
  CHECK(alpha.count<election::NoLeader>() == 2);
}

TEST_CASE("a leader that cannot resign has withdrawn when its lease is over") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.lead();
  alpha.tell(election::Withdraw{});
  while (alpha.count<election::Withdrawn>() == 0) {
    while (!alpha.asks().empty()) alpha.fail(alpha.take(), Kind::unreachable);
    if (alpha.count<election::Withdrawn>() == 0) alpha.ring();
  }
  CHECK(etcd.now <= TimePoint{} + 5s);
}

TEST_CASE("a candidate that withdraws does not lead by a win that it learns of later") {
  Etcd etcd;
  Candidate alpha(etcd, "alpha");
  alpha.serve();
  alpha.tell(election::Enter{});
  alpha.answer(alpha.take());
  alpha.answer(alpha.take<etcd::Grant>());
  const auto stands = alpha.take();
  alpha.tell(election::Withdraw{});
  alpha.answer(stands);
  alpha.serve();
  CHECK(alpha.count<election::Leads>() == 0);
  CHECK(alpha.count<election::Withdrawn>() == 1);
  CHECK(etcd.model.leases() == 0);
  CHECK(etcd.model.find(table_keys.leader()) == nullptr);
}

}  // namespace election_writing_test
