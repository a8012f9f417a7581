// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A job on several hosts whose coordinator is on host 0, with a lease of two seconds and a
// temporary directory of its own, so that a scene can check at its end that nothing is left
// anywhere.

#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"

namespace cpprun::integration {

struct Cluster {
  explicit Cluster(int count, std::string nodes_wanted)
      : hosts(count), nodes(std::move(nodes_wanted)) {}

  Options options() const { return {.variables = {{"TMPDIR", temporary.path()}}}; }

  Words node(int host, const Words& flags, const Words& program) const {
    Words words = {"--nnodes=" + nodes,         "--nproc-per-node=" + workers,
                   "--rdzv-backend=" + backend, "--rdzv-endpoint=" + endpoint,
                   "--rdzv-id=" + job,          "--rdzv-conf=" + conf};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), program.begin(), program.end());
    return hosts.on(host, with_cpprun(words));
  }
  // Its workers print their pid and their seat, and stay.
  Words node(int host, const Words& flags = {}) const {
    return node(host, flags, {worker(), "pid", "seat", "hang"});
  }

  void expect_nothing_left() const {
    hosts.expect_nothing_left();
    std::string left;
    namespace fs = std::filesystem;
    for (const auto& each : fs::recursive_directory_iterator(temporary.path())) {
      left += " " + each.path().lexically_relative(temporary.path()).string();
    }
    CHECK(left == "");
  }

  Hosts hosts;
  Directory temporary;
  std::string nodes;
  std::string workers = "1";
  std::string backend = "c10d";
  std::string job = "cluster";
  std::string endpoint = Hosts::address(0) + ":29500";
  // The lease is long enough for two busy cores, and short enough to wait for.
  std::string conf =
      "keep_alive_interval=0.2,keep_alive_max_attempt=10,last_call_timeout=0.2,join_timeout=50";
};

inline void expect_each(std::initializer_list<Command*> nodes, std::string_view said,
                        std::size_t times = 1) {
  for (Command* const each : nodes) each->expect_out(said, times);
}

// The pid that the worker of that rank printed last.
inline pid_t pid_of(const Command& command, const std::string& rank) {
  const auto& said = command.out();
  const std::string before = "pid of rank " + rank + ": ";
  const auto at = said.rfind(before);
  REQUIRE_MESSAGE(at != std::string::npos, "rank ", rank, " has not printed its pid: ", said);
  return std::atoi(said.c_str() + at + before.size());
}

// Asks all of them to end; in an elastic job a single SIGTERM only makes one node leave.
inline void end_all(Command& first, std::initializer_list<Command*> others) {
  first.signal(SIGTERM);
  for (Command* const other : others) other->signal(SIGTERM);
  CHECK(first.wait().code == 143);
  for (Command* const other : others) {
    const auto ended = other->wait();
    CHECK_MESSAGE(ended.code == 143, ended.err);
  }
}

// The nodes of a job on three hosts.
struct ThreeNodes {
  explicit ThreeNodes(std::unique_ptr<Cluster> its)
      : cluster(std::move(its)),
        first(cluster->node(0), cluster->options()),
        second(cluster->node(1), cluster->options()),
        third(cluster->node(2), cluster->options()) {}

  std::unique_ptr<Cluster> cluster;
  Command first;
  Command second;
  Command third;
};

// All three at work; none where hosts cannot be made, which is said.
inline std::unique_ptr<ThreeNodes> three_at_work(const std::string& nodes_wanted) {
  auto cluster = std::make_unique<Cluster>(3, nodes_wanted);
  if (const auto& why = cluster->hosts.why_not(); !why.empty()) {
    skip(why);
    return nullptr;
  }
  auto nodes = std::make_unique<ThreeNodes>(std::move(cluster));
  expect_each({&nodes->first, &nodes->second, &nodes->third}, " of 3, restart 0\n");
  return nodes;
}

}  // namespace cpprun::integration
