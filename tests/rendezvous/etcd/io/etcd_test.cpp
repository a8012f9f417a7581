// SPDX-License-Identifier: BSD-3-Clause
// Contests with a real etcd of three members. Nothing is judged by how long it takes; how long it
// took is printed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/rendezvous/etcd/io/contest_stage.h"
#include "tests/rendezvous/etcd/io/etcd_cluster.h"

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

bool is_skipped() {
  const std::string why = no_etcd();
  if (!why.empty()) integration::skip(why);
  return !why.empty();
}

}  // namespace

TEST_CASE("one leads, the others follow, and when it is killed another goes on with its records") {
  if (is_skipped()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = stage.add("alpha");
  stage.await([&] { return alpha.count<contest::NobodyLeads>() == 1; }, "alpha looks");
  auto begun = boot_now();
  alpha.tell(contest::Enter{});
  stage.await([&] { return alpha.leads(); }, "alpha leads");
  fmt::print("first leader after {:.0f} ms\n", 1000 * in_seconds(boot_now() - begun));
  CHECK(alpha.last<contest::Found>() == contest::Found{});

  Candidate& beta = stage.add("beta");
  beta.tell(contest::Enter{});
  const auto seen = [&](const char* name) {
    const auto leader = beta.last<contest::LeaderIs>();
    return leader && leader->name == name;
  };
  stage.await([&] { return seen("alpha"); }, "beta follows");
  CHECK(beta.last<contest::LeaderIs>()->epoch == alpha.epoch());
  alpha.tell(contest::Keep{"job", "record", 1});
  alpha.tell(contest::Keep{"gone", "record", 2});
  alpha.tell(contest::Drop{"gone", 3});
  alpha.tell(contest::Publish{{"beta"}, 4});
  const auto written = [&] {
    const auto last = alpha.last<contest::Written>();
    return last && last->through == 4;
  };
  stage.await(written, "alpha's records are written");
  const std::vector<std::string> both = {"alpha", "beta"};
  stage.await([&] { return beta.last<contest::LeaderIs>()->synced == both; }, "beta is synced");

  const auto epoch = alpha.epoch();
  begun = boot_now();
  stage.kill(alpha);
  stage.await([&] { return beta.leads(); }, "beta leads");
  fmt::print("next leader {:.2f} s after the first was killed\n", in_seconds(boot_now() - begun));
  CHECK(beta.epoch() > epoch);
  CHECK(beta.last<contest::Found>() == contest::Found{both, {{"job", "record"}}});
}
