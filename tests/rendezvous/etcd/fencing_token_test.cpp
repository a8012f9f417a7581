// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/leader_lease.h"

#include <doctest/doctest.h>

#include "tests/rendezvous/etcd/etcd_model.h"

namespace fencing_token_test {

using namespace cpprun;
using namespace cpprun::test;
using Verdict = FencingToken::Verdict;

namespace {

const ElectionKeys keys = *ElectionKeys::make("test");

// An etcd with a winner.
struct Won {
  Won() { fence = win(); }
  FencingToken win() {
    const auto decided =
        ask({.success = {etcd::Put{keys.leader(), "me"}, FencingToken::first_turn(keys)}});
    return FencingToken(decided.header.revision);
  }
  etcd::Decided ask(const etcd::Transaction& transaction) {
    return std::get<etcd::Decided>(**etcd.ask(TimePoint{}, 0, transaction));
  }
  etcd::Transaction change(const std::string& value) {
    return fence.guard(keys, {etcd::Put{"a", value}});
  }
  EtcdModel etcd{{.members = 1}, 1};
  FencingToken fence;
};

}  // namespace

TEST_CASE("a leader's changes are executed in order") {
  Won won;
  for (const char* value : {"1", "2", "3"}) {
    CHECK(won.fence.judge(won.ask(won.change(value))) == Verdict::done);
    CHECK(won.etcd.find("a")->value == value);
  }
}

TEST_CASE("a change that is sent twice is executed once, whichever response was lost") {
  Won won;
  const auto first = won.change("1");
  won.ask(first);
  CHECK(won.fence.judge(won.ask(first)) == Verdict::done);
  CHECK(won.fence.judge(won.ask(won.change("2"))) == Verdict::done);
}

TEST_CASE("a delayed change does not undo a later one") {
  Won won;
  const auto late = won.change("1");
  CHECK(won.fence.judge(won.ask(late)) == Verdict::done);
  CHECK(won.fence.judge(won.ask(won.change("2"))) == Verdict::done);
  CHECK_FALSE(won.ask(late).succeeded);
  CHECK(won.etcd.find("a")->value == "2");
}

TEST_CASE("a former leader changes nothing after another one has won") {
  Won won;
  won.etcd.remove(keys.leader());
  FencingToken next = won.win();
  CHECK(won.fence.judge(won.ask(won.change("1"))) == Verdict::lost);
  CHECK(won.etcd.find("a") == nullptr);
  CHECK(next.judge(won.ask(next.guard(keys, {etcd::Put{"a", "2"}}))) == Verdict::done);
}

TEST_CASE("a former leader changes nothing while there is no leader") {
  Won won;
  won.etcd.remove(keys.leader());
  CHECK(won.fence.judge(won.ask(won.change("1"))) == Verdict::lost);
  CHECK(won.etcd.find("a") == nullptr);
}

}  // namespace fencing_token_test
