// SPDX-License-Identifier: BSD-3-Clause
// A job on several hosts that an operator controls with cpprunctl from one of them: what the
// workers see of it, and what every node prints. With the finished programs.

#include <doctest/doctest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/integration/cluster.h"

namespace steered_hosts_test {

using namespace cpprun::integration;
using nlohmann::json;

namespace {

constexpr const char* by_root = "uid 0 (root)";

// A cluster with a report for each host, controlled from host 0.
struct Steered {
  Steered(int count, const std::string& nodes_wanted) : cluster(count, nodes_wanted) {
    cluster.job = "steered";
  }

  Options options() const {
    return {.variables = {{"TMPDIR", cluster.temporary.path()}, {"XDG_RUNTIME_DIR", ""}}};
  }
  std::string report_of(int host) const {
    return reports.path() + "/" + Hosts::host_name(host) + ".json";
  }
  // Its worker prints its seat, and whenever it is asked to save.
  std::unique_ptr<Command> node(int host) const {
    const Words words = cluster.node(host, {"--report=" + report_of(host)},
                                     {worker(), "say_on_usr1", "none", "seat", "hang"});
    return std::make_unique<Command>(words, options());
  }
  Ended order(const Words& words) const {
    Words all = {from_build("CPPRUNCTL")};
    all.insert(all.end(), words.begin(), words.end());
    return run(cluster.hosts.on(0, all), options());
  }
  // Until cpprunctl sees the job: its socket is created a while after the start.
  void await_door() const {
    const auto end = std::chrono::steady_clock::now() + timeout;
    Ended seen = order({"status", "steered"});
    while (seen.code != 0 && std::chrono::steady_clock::now() < end) {
      seen = order({"status", "steered"});
    }
    REQUIRE_MESSAGE(seen.code == 0, seen.err);
  }
  std::string reported_by(int host) const {
    return json::parse(std::ifstream(report_of(host)))["reason"];
  }
  // Done by cpprunctl, for a reason that all nodes print.
  void stop(const std::string& reason,
            std::initializer_list<std::pair<int, Command*>> nodes) const {
    const auto stopped = order({"stop", "steered", "--reason", reason});
    CHECK_MESSAGE(stopped.code == 0, stopped.err);
    const std::string said = std::string(by_root) + " stopped the job: " + reason;
    for (const auto& [host, node] : nodes) {
      const auto ended = node->wait();
      CHECK(ended.code == 128 + SIGTERM);
      CHECK_MESSAGE(contains(ended.err, said), ended.err);
      CHECK(reported_by(host) == said);
      node->expect_no_worker_left();
    }
  }

  Cluster cluster;
  Directory reports;
};

}  // namespace

TEST_CASE(
    "three hosts save, one is drained for a spare, excluded and included again, and all stop") {
  const Steered scene(4, "3");
  if (const auto& why = scene.cluster.hosts.why_not(); !why.empty()) return skip(why);
  const auto first = scene.node(0);
  const auto second = scene.node(1);
  const auto third = scene.node(2);
  expect_each({first.get(), second.get(), third.get()}, " of 3, restart 0\n");
  const auto spare = scene.node(3);
  spare->expect_err("this node is a spare");
  scene.await_door();

  const auto saved = scene.order({"save", "steered", "--reason", "before the drain"});
  CHECK_MESSAGE(saved.code == 0, saved.err);
  CHECK(saved.out ==
        "sending SIGUSR1 to the 3 workers of round 1 in 1 s; workers without a handler for it are "
        "skipped\n");
  expect_each({first.get(), second.get(), third.get()}, "saves\n");
  CHECK_FALSE(contains(spare->out(), "saves"));

  const auto drained = scene.order({"drain", "node2", "--job=steered", "--reason", "ECC errors"});
  CHECK_MESSAGE(drained.code == 0, drained.err);
  const auto left = third->wait();
  CHECK(left.code == 0);
  CHECK(contains(left.err, "this node leaves the job: " + std::string(by_root)));
  CHECK(contains(left.err, ": ECC errors"));
  third->expect_no_worker_left();
  spare->expect_out(" of 3, restart 0\n");
  expect_each({first.get(), second.get()}, " of 3, restart 0\n", 2);

  const auto excluded =
      scene.order({"exclude", "node2", "--for=2h", "--job=steered", "--reason", "ECC errors"});
  CHECK_MESSAGE(excluded.code == 0, excluded.err);
  const auto kept_out = scene.node(2)->wait();
  CHECK(kept_out.code == 1);
  CHECK_MESSAGE(contains(kept_out.err, "node2 is excluded for "), kept_out.err);
  CHECK(contains(kept_out.err, ": ECC errors"));
  CHECK(kept_out.out.empty());
  CHECK(scene.order({"include", "node2", "--job=steered"}).code == 0);
  CHECK(scene.order({"include", "node2", "--job=steered"}).code == 1);
  const auto again = scene.node(2);
  again->expect_err("this node is a spare");

  scene.stop("the data were wrong", {{0, first.get()}, {1, second.get()}, {3, spare.get()}});
  again->wait();
  again->expect_no_worker_left();
  scene.cluster.expect_nothing_left();
}

TEST_CASE(
    "an elastic job continues as two when a host is excluded, and as three when it is "
    "included") {
  const Steered scene(3, "2:3");
  if (const auto& why = scene.cluster.hosts.why_not(); !why.empty()) return skip(why);
  const auto first = scene.node(0);
  const auto second = scene.node(1);
  const auto third = scene.node(2);
  expect_each({first.get(), second.get(), third.get()}, " of 3, restart 0\n");
  scene.await_door();

  const auto excluded =
      scene.order({"exclude", Hosts::address(1), "--job=steered", "--reason", "a bad fan"});
  CHECK_MESSAGE(excluded.code == 0, excluded.err);
  const auto left = second->wait();
  CHECK(left.code == 0);
  CHECK(contains(left.err, ": a bad fan"));
  expect_each({first.get(), third.get()}, " of 2, restart 0\n");
  const auto kept_out = scene.node(1)->wait();
  CHECK(kept_out.code == 1);
  CHECK_MESSAGE(contains(kept_out.err, Hosts::address(1) + " is excluded"), kept_out.err);

  // With two of at least two nodes left no node can be drained.
  const auto needed = scene.order({"drain", "node2", "--job=steered"});
  CHECK(needed.code == 1);
  CHECK(contains(needed.err, "cpprunctl: error: "));

  CHECK(scene.order({"include", Hosts::address(1), "--job=steered"}).code == 0);
  const auto again = scene.node(1);
  again->expect_out(" of 3, restart 0\n");
  expect_each({first.get(), third.get()}, " of 3, restart 0\n", 2);
  const auto saved = scene.order({"save", "steered"});
  CHECK_MESSAGE(saved.code == 0, saved.err);
  expect_each({first.get(), again.get(), third.get()}, "saves\n");
  scene.stop("enough", {{0, first.get()}, {1, again.get()}, {2, third.get()}});
  scene.cluster.expect_nothing_left();
}

}  // namespace steered_hosts_test
