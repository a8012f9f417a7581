// SPDX-License-Identifier: BSD-3-Clause
// Programs of another commit beside those of this one, as in a cluster that is being upgraded or
// rolled back. CPPRUN_OLD_BUILD names a build directory of that commit: ./dev test --mixed.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/integration/daemon_site.h"

namespace mixed_versions_test {

using namespace cpprun::integration;

namespace {

enum class Build { old, ours };

constexpr int steps = 4;

std::string old_build() {
  const char* const directory = std::getenv("CPPRUN_OLD_BUILD");
  return directory == nullptr ? "" : directory;
}

// Why the scene cannot run here; empty if it can.
std::string why_not(const Cluster& cluster) {
  if (old_build().empty()) return "CPPRUN_OLD_BUILD names no build directory of another commit";
  return cluster.hosts.why_not();
}

// The same command, with the program of that build.
Words from(Build build, Words words) {
  if (build == Build::ours) return words;
  std::ranges::replace(words, from_build("CPPRUN"), old_build() + "/launcher/cpprun");
  std::ranges::replace(words, from_build("CPPRUND"), old_build() + "/rendezvous/cpprund");
  return words;
}

std::unique_ptr<Command> node(const Cluster& cluster, int host, Build build, const Words& does) {
  Words program = {from_build("CPPRUN_STORE_WORKER")};
  program.insert(program.end(), does.begin(), does.end());
  return std::make_unique<Command>(
      from(build, cluster.node(host, {"--store=local", "--max-restarts=1"}, program)),
      cluster.options());
}

// On host 0.
std::unique_ptr<Command> daemon(const Cluster& cluster, Build build, const Words& more = {}) {
  Words words = {from_build("CPPRUND"), "--host=" + Hosts::address(0), "--port=29500",
                 "--status-access=none"};
  words.insert(words.end(), more.begin(), more.end());
  auto begun =
      std::make_unique<Command>(cluster.hosts.on(0, from(build, words)), cluster.options());
  begun->expect_out("\n");
  return begun;
}

// All ranks fail in the first round. In the second they use the store, and every increment of the
// job's four workers is counted once.
Words fails_once() {
  Words does = {"meet", "first", "fail_first", "3"};
  const Words adds = adds_in(steps);
  does.insert(does.end(), adds.begin(), adds.end());
  return does;
}

void expect_restarted_and_added(std::initializer_list<Command*> nodes) {
  std::string out;
  for (Command* const each : nodes) {
    const auto ended = each->wait();
    CHECK_MESSAGE(ended.code == 0, ended.err);
    out += "\n" + ended.out;
  }
  const std::string sum = ": sum is " + std::to_string(4 * steps * adds_per_step) + "\n";
  for (const char* const rank : {"0", "1", "2", "3"}) {
    CHECK_MESSAGE(contains(out, "\n" + (rank + sum)), out);
  }
}

void expect_at_daemon(Build at, Build one, Build other) {
  Cluster cluster(3, "2");
  if (const auto why = why_not(cluster); !why.empty()) return skip(why);
  cluster.workers = "2";
  const auto meets_at = daemon(cluster, at);
  const auto first = node(cluster, 1, one, fails_once());
  const auto second = node(cluster, 2, other, fails_once());
  expect_restarted_and_added({first.get(), second.get()});
  end_daemon(*meets_at);
  cluster.expect_nothing_left();
}

// Four nodes, one of which may be the standby of the host.
void expect_hosted(Build host, Build others) {
  Cluster cluster(4, "4");
  if (const auto why = why_not(cluster); !why.empty()) return skip(why);
  std::array<std::unique_ptr<Command>, 4> nodes;
  for (int each = 0; each < 4; ++each) {
    nodes[static_cast<std::size_t>(each)] =
        node(cluster, each, each == 0 ? host : others, fails_once());
  }
  expect_restarted_and_added({nodes[0].get(), nodes[1].get(), nodes[2].get(), nodes[3].get()});
  cluster.expect_nothing_left();
}

void expect_state_resumed(Build before, Build after) {
  Cluster cluster(3, "2");
  if (const auto why = why_not(cluster); !why.empty()) return skip(why);
  cluster.workers = "2";
  const Directory state;
  const Words keeps = {"--state=" + state.path()};
  auto meets_at = daemon(cluster, before, keeps);
  Gate gate;
  const auto first = node(cluster, 1, before, adds_in(steps, &gate));
  const auto second = node(cluster, 2, after, adds_in(steps, &gate));
  first->expect_out("sum is ");
  second->expect_out("sum is ");
  kill_at_once(*meets_at);
  meets_at = daemon(cluster, after, keeps);
  gate.open();
  expect_all_added({first.get(), second.get()}, steps);
  end_daemon(*meets_at);
  cluster.expect_nothing_left();
}

}  // namespace

TEST_CASE("nodes of another build meet at a cpprund of this one") {
  expect_at_daemon(Build::ours, Build::old, Build::old);
}

TEST_CASE("nodes of this build meet at a cpprund of another one") {
  expect_at_daemon(Build::old, Build::ours, Build::ours);
}

TEST_CASE("nodes of two builds meet at a cpprund of either") {
  expect_at_daemon(Build::ours, Build::old, Build::ours);
  expect_at_daemon(Build::old, Build::ours, Build::old);
}

TEST_CASE("a node of another build hosts a job whose other nodes are of this one") {
  expect_hosted(Build::old, Build::ours);
}

TEST_CASE("a node of this build hosts a job whose other nodes are of another one") {
  expect_hosted(Build::ours, Build::old);
}

TEST_CASE("a state directory of another build is taken over, and handed back") {
  expect_state_resumed(Build::old, Build::ours);
  expect_state_resumed(Build::ours, Build::old);
}

TEST_CASE("nodes of another build work with the leader of several daemons") {
  Site site;
  if (const auto why = why_not(site.cluster); !why.empty()) return skip(why);
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  site.cluster.endpoint = Site::place(0);
  const auto first = node(site.cluster, 1, Build::old, fails_once());
  const auto second = node(site.cluster, 2, Build::old, fails_once());
  expect_restarted_and_added({first.get(), second.get()});
  site.end_all();
}

}  // namespace mixed_versions_test
