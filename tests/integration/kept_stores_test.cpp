// SPDX-License-Identifier: BSD-3-Clause
// A cpprund that keeps the stores of its jobs (--state, --store=local): clients wait a moment while
// the daemon is killed and restarts, and notice nothing else.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/integration/adding_workers.h"

namespace kept_stores_test {

using namespace cpprun::integration;

namespace {

// On host 0, where no node of a job runs, with a directory that outlives it.
struct Site {
  Site() : cluster(3, "2") { cluster.workers = "2"; }

  std::unique_ptr<Command> daemon(const Words& more = {}) const {
    Words words = {from_build("CPPRUND"), "--host=" + Hosts::address(0), "--port=29500",
                   "--state=" + state.path(), "--status-access=none"};
    words.insert(words.end(), more.begin(), more.end());
    auto begun = std::make_unique<Command>(cluster.hosts.on(0, words), cluster.options());
    begun->expect_out("\n");
    return begun;
  }
  std::unique_ptr<Command> node(int host, const Words& does) const {
    Words program = {from_build("CPPRUN_STORE_WORKER")};
    program.insert(program.end(), does.begin(), does.end());
    return std::make_unique<Command>(cluster.node(host, {"--store=local"}, program),
                                     cluster.options());
  }
  std::string log_file() const {
    for (const std::string& name : state.entries()) {
      if (name.ends_with(".log")) return state.path() + "/" + name;
    }
    return {};
  }
  void expect_nothing_left() const {
    cluster.expect_nothing_left();
    CHECK(state.entries() == std::vector<std::string>{"alive", "lock"});
  }
  Cluster cluster;
  Directory state;
};

}  // namespace

TEST_CASE("no worker notices that its daemon is killed and restarts, and no answer is lost") {
  const Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  auto daemon = site.daemon();
  constexpr int steps = 12;
  const auto first = site.node(1, adds_in(steps));
  const auto second = site.node(2, adds_in(steps));
  for (std::size_t kills = 1; kills <= 8; ++kills) {
    first->expect_out("sum is ", 2 * kills);
    kill_at_once(*daemon);
    daemon = site.daemon();
  }
  expect_all_added({first.get(), second.get()}, steps);
  end_daemon(*daemon);
  site.expect_nothing_left();
}

TEST_CASE("a daemon is killed and restarts ten times beside 64 counting workers") {
  Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  site.cluster.workers = "32";
  auto daemon = site.daemon();
  constexpr int steps = 20;
  constexpr int adds_each = 20;
  const auto first = site.node(1, adds_in(steps, nullptr, adds_each));
  const auto second = site.node(2, adds_in(steps, nullptr, adds_each));
  for (std::size_t kills = 1; kills <= 10; ++kills) {
    first->expect_out("sum is ", 32 * kills);
    kill_at_once(*daemon);
    daemon = site.daemon();
  }
  expect_all_added({first.get(), second.get()}, steps, 64, adds_each);
  end_daemon(*daemon);
  site.expect_nothing_left();
}

TEST_CASE("no answer is lost where records are synced to disk before they are answered") {
  const Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  auto daemon = site.daemon({"--state-sync"});
  const auto first = site.node(1, adds_in(2));
  const auto second = site.node(2, adds_in(2));
  first->expect_out("sum is ", 2);
  kill_at_once(*daemon);
  daemon = site.daemon({"--state-sync"});
  for (Command* const each : {first.get(), second.get()}) {
    const auto ended = each->wait();
    CHECK(ended.code == 0);
    CHECK(count(ended.out, "sum is 2400\n") >= 2);
  }
  end_daemon(*daemon);
  site.expect_nothing_left();
}

TEST_CASE("a wait for a key is answered after the daemon restarts") {
  const Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  auto daemon = site.daemon();
  const Words before = {"add", "here", "1", "count", "here"};
  Words waits = before;
  for (const char* const word : {"get", "go"}) waits.emplace_back(word);
  Words comes = before;
  for (const char* const word : {"add", "on the way", "4000", "set", "go", "x"}) {
    comes.emplace_back(word);
  }
  const auto first = site.node(1, waits);
  const auto second = site.node(2, comes);
  first->expect_out("here is ", 2);
  second->expect_out("here is ", 2);
  kill_at_once(*daemon);
  daemon = site.daemon();
  daemon->signal(SIGTERM);  // As for an upgrade.
  CHECK(daemon->wait().code == 0);
  daemon = site.daemon();
  for (Command* const each : {first.get(), second.get()}) CHECK(each->wait().code == 0);
  CHECK(count(first->out(), "go is x\n") == 2);
  end_daemon(*daemon);
  site.expect_nothing_left();
}

TEST_CASE("a damaged log is reported with its position, and the round restarts on an empty store") {
  const Site site;
  if (!site.cluster.hosts.why_not().empty()) return skip(site.cluster.hosts.why_not());
  auto daemon = site.daemon();
  const Words does = {"find", "old", "meet", "all", "set", "old", "1", "get", "wait"};
  const auto first = site.node(1, does);
  const auto second = site.node(2, does);
  expect_each({first.get(), second.get()}, "old is nothing\n", 2);
  daemon->signal(SIGTERM);
  CHECK(daemon->wait().code == 0);
  const std::string damaged = site.log_file();
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  REQUIRE(file);
  file.seekp(80);
  file.put('\x7f');
  file.close();
  daemon = site.daemon();
  daemon->expect_err("is damaged: wrong checksum at byte");
  daemon->expect_err("the store of its job is lost, and its round restarts");
  expect_each({first.get(), second.get()}, "old is nothing\n", 4);
  end_all(*first, {second.get()});
  end_daemon(*daemon);
  // It is kept for inspection.
  std::error_code missing;
  CHECK(std::filesystem::remove(damaged.substr(0, damaged.size() - 3) + "damaged", missing));
  site.expect_nothing_left();
}

}  // namespace kept_stores_test
