#pragma once
// A job on several hosts that meets at host 0, with a lease of two seconds, and a temporary folder
// of its own, so that a scene can say at its end that nothing is left anywhere.

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/integration/command.h"
#include "tests/integration/folder.h"
#include "tests/integration/hosts.h"

namespace cpprun::integration {

struct Cluster {
  explicit Cluster(int count, std::string nodes_wanted)
      : hosts(count), nodes(std::move(nodes_wanted)) {}

  Options options() const { return {.variables = {{"TMPDIR", temporary.path()}}}; }

  Words node(int host, const Words& flags, const Words& program) const {
    Words words = {"--nnodes=" + nodes,   "--nproc-per-node=" + workers,
                   "--rdzv-backend=c10d", "--rdzv-endpoint=" + Hosts::address(0) + ":29500",
                   "--rdzv-id=" + job,    "--rdzv-conf=" + conf};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), program.begin(), program.end());
    return hosts.on(host, with_cpprun(words));
  }
  // Its workers say where they sit, and stay there.
  Words node(int host, const Words& flags = {}) const {
    return node(host, flags, {worker(), "seat", "hang"});
  }

  void expect_nothing_left() const {
    hosts.expect_nothing_left();
    CHECK(temporary.entries() == std::vector<std::string>{});
  }

  Hosts hosts;
  Folder temporary;
  std::string nodes;
  std::string workers = "1";
  std::string job = "cluster";
  // The lease is long enough for two busy cores, and short enough to wait for.
  std::string conf =
      "keep_alive_interval=0.2,keep_alive_max_attempt=10,last_call_timeout=0.2,join_timeout=50";
};

}  // namespace cpprun::integration
