// SPDX-License-Identifier: BSD-3-Clause
// Nodes with several cpprund addresses find the running one, and later the next one with their
// job, while their workers continue.

#include <doctest/doctest.h>

#include <memory>

#include "tests/integration/adding_workers.h"

namespace several_daemons_test {

using namespace cpprun::integration;

namespace {

// Nodes on hosts 1 and 2; a daemon on host 0 or 3, with its state in a directory that both of them
// reach.
struct Site {
  Site() : cluster(4, "2") {
    cluster.workers = "2";
    cluster.endpoint = Hosts::address(0) + ":29500," + Hosts::address(3) + ":29500";
  }

  std::unique_ptr<Command> daemon(int host) const {
    auto begun = std::make_unique<Command>(
        cluster.hosts.on(host, {from_build("CPPRUND"), "--host=" + Hosts::address(host),
                                "--port=29500", "--state=" + state.path(), "--status-access=none"}),
        cluster.options());
    begun->expect_out("\n");
    return begun;
  }
  // In the order of `cluster`, or reversed: each node chooses its own order.
  std::unique_ptr<Command> node(int host, const Words& does) const {
    Words program = {from_build("CPPRUN_STORE_WORKER")};
    program.insert(program.end(), does.begin(), does.end());
    return std::make_unique<Command>(cluster.node(host, {}, program), cluster.options());
  }
  void expect_nothing_left() const {
    cluster.expect_nothing_left();
    CHECK(state.entries() == std::vector<std::string>{"alive", "lock"});
  }
  Cluster cluster;
  Directory state;
};

}  // namespace

TEST_CASE("no worker notices that its job continues at another daemon, and no answer is lost") {
  Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  auto daemon = site.daemon(3);
  constexpr int steps = 8;
  const auto first = site.node(1, adds_in(steps));
  site.cluster.endpoint = Hosts::address(3) + ":29500," + Hosts::address(0) + ":29500";
  const auto second = site.node(2, adds_in(steps));
  for (std::size_t kills = 1; kills <= 4; ++kills) {
    first->expect_out("sum is ", 2 * kills);
    kill_at_once(*daemon);
    daemon = site.daemon(kills % 2 == 0 ? 3 : 0);
  }
  expect_all_added({first.get(), second.get()}, steps);
  end_daemon(*daemon);
  site.expect_nothing_left();
}

TEST_CASE("when no daemon is left, the workers end with the lease, and all daemons are named") {
  Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  auto daemon = site.daemon(0);
  const auto first = site.node(1, {"count", "sum", "get", "never"});
  const auto second = site.node(2, {"count", "sum", "get", "never"});
  expect_each({first.get(), second.get()}, "sum is 0\n", 2);
  kill_at_once(*daemon);
  for (Command* const each : {first.get(), second.get()}) {
    const auto ended = each->wait();
    CHECK(ended.code == 1);
    CHECK(contains(ended.err, "no leader among 10.77.0.1:29500, 10.77.0.4:29500: "));
  }
  site.cluster.expect_nothing_left();
}

}  // namespace several_daemons_test
