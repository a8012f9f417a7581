// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_view.h"

#include <doctest/doctest.h>

namespace election_view_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const ElectionKeys keys = *ElectionKeys::make("test");
constexpr Duration ttl = 2s;

etcd::Outcome one(const std::string& key, const std::string& value, etcd::Revision created,
                  etcd::Revision changed, etcd::LeaseId lease = etcd::no_lease) {
  return {.pairs = {{key, value, created, changed, lease}}};
}

ElectionView vacant(Synced synced, std::uint64_t term = 1) {
  return {
      .header = {.revision = 20, .term = term}, .synced = std::move(synced), .synced_changed = 10};
}

}  // namespace

TEST_CASE("one read returns all keys of an election") {
  CHECK(view_reads(keys).size() == 3);
  const std::vector<etcd::Outcome> outcomes = {
      one(keys.leader(), to_json(LeaderCard{"alpha", "card"}), 10, 10, 77),
      one(keys.synced(), to_json(Synced{.names = {"alpha"}, .ttl = ttl}), 4, 10),
      one(keys.cluster(), "0123", 4, 4)};
  const auto view = read_view(keys, {.revision = 20, .term = 3}, outcomes);
  REQUIRE(view);
  CHECK(view->leader == ElectionView::Leader{10, 77, {"alpha", "card"}});
  CHECK(view->synced->epoch == 10);
  CHECK(view->synced_changed == 10);
  CHECK(view->cluster == "0123");
  CHECK(view->header.term == 3);
  const auto nothing = read_view(keys, {}, std::vector<etcd::Outcome>(3));
  REQUIRE(nothing);
  CHECK_FALSE(nothing->leader);
  CHECK_FALSE(nothing->synced);
  CHECK(nothing->synced_changed == 0);
  CHECK(nothing->cluster.empty());
}

TEST_CASE("a foreign value is reported with its key") {
  std::vector<etcd::Outcome> outcomes(3);
  outcomes[0] = one(keys.leader(), "hello", 1, 1);
  CHECK(read_view(keys, {}, outcomes).error().reason ==
        "the etcd key \"/cpprun/test/leader\" has unexpected content (not a JSON "
        "object); use another --cluster (cpprun: --rdzv-id), or remove the key");
  outcomes[0] = {};
  outcomes[1] = one(keys.synced(), "{}", 1, 1);
  CHECK_FALSE(read_view(keys, {}, outcomes));
}

TEST_CASE("an etcd with other or older data than before is rejected") {
  ElectionView view = vacant({});
  view.cluster = "0123";
  CHECK_FALSE(objection_to(view, {}, keys));
  CHECK_FALSE(objection_to(view, {"0123", 10}, keys));
  CHECK(objection_to(view, {"4567", 0}, keys)->find("cluster 0123 is under \"/cpprun/test/\"") ==
        0);
  CHECK(objection_to(view, {"0123", 11}, keys)
            ->find("etcd has epoch 10 for \"/cpprun/test/\", but had epoch 11 before") !=
        std::string::npos);
  view.leader = ElectionView::Leader{.epoch = 11};
  CHECK_FALSE(objection_to(view, {"0123", 11}, keys));
  CHECK(objection_to(ElectionView{}, {"0123", 0}, keys)->find("it was emptied") !=
        std::string::npos);
}

TEST_CASE("the first candidate does not wait") {
  CHECK(wait_to_run(ElectionView{}, "alpha", ttl) == 0s);
}

TEST_CASE("a synced standby leads one lease before all others") {
  const auto view = vacant({.names = {"alpha", "beta"}, .term = 1, .ttl = ttl});
  CHECK(wait_to_run(view, "beta", ttl) == 0s);
  CHECK(wait_to_run(view, "gamma", ttl) == ttl);
  CHECK(wait_to_run(vacant({.term = 1, .ttl = ttl}), "gamma", ttl) == 0s);
}

TEST_CASE(
    "no candidate leads before the last leader's lease is over if etcd may have ended it early") {
  const Synced synced{.names = {"alpha"}, .term = 1, .ttl = 5s};
  CHECK(wait_to_run(vacant(synced, 1), "alpha", ttl) == 0s);
  CHECK(wait_to_run(vacant(synced, 2), "alpha", ttl) == 5s);
  CHECK(wait_to_run(vacant(synced, 2), "beta", ttl) == 5s + ttl);
}

TEST_CASE("a resigned leader no longer blocks, and may name its successor") {
  Synced synced{.names = {"alpha", "beta", "gamma"}, .term = 1, .ttl = 5s, .is_vacant = true};
  CHECK(wait_to_run(vacant(synced, 2), "beta", ttl) == 0s);
  synced.successor = "beta";
  CHECK(wait_to_run(vacant(synced, 2), "beta", ttl) == 0s);
  CHECK(wait_to_run(vacant(synced, 2), "gamma", ttl) == ttl);
  // A successor counts only if the last leader has resigned.
  synced.is_vacant = false;
  CHECK(wait_to_run(vacant(synced, 1), "gamma", ttl) == 0s);
}

}  // namespace election_view_test
