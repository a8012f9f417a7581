// SPDX-License-Identifier: BSD-3-Clause
// PyTorch over gloo on two hosts that are set to use an unconnected card, or whose names resolve to
// themselves. Both hosts name the card as the cause, and suggest the right one at once.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"

namespace wrong_interface_test {

using namespace cpprun::integration;

namespace {

const std::string no_python = "no Python with torch was found when this was configured";

constexpr const char* sum_ranks = R"(
import datetime, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
print(f"the sum is {int(total)}", flush=True)
dist.destroy_process_group()
)";

struct Scene {
  Words node(int rank, const std::string& master, const std::string& script) const {
    return hosts.on(rank, with_cpprun({"--nnodes=2", "--nproc-per-node=1",
                                       "--node-rank=" + std::to_string(rank),
                                       "--master-addr=" + master, "--master-port=29500", script}));
  }
  Options options(const std::string& interface) const {
    Options options{.variables = {{"PYTHON_EXEC", from_build("CPPRUN_PYTHON")}}};
    if (!interface.empty()) options.variables["GLOO_SOCKET_IFNAME"] = interface;
    return options;
  }

  const Hosts hosts{2};
};

const std::string hint = "hint: unset GLOO_SOCKET_IFNAME";

void expect_verdict(const std::vector<Ended>& nodes, const std::string& interface) {
  for (const Ended& ended : nodes) {
    CHECK(ended.code == 1);
    for (const std::string& part :
         {"GLOO_SOCKET_IFNAME=" + interface + ": ", std::string("or name fabric0 (10.77.0."),
          std::string("[stray_interface]")}) {
      CHECK_MESSAGE(contains(ended.err, part), "\"", part, "\" is not in:\n", ended.err);
    }
  }
  // A node whose worker was only stopped prints one line about the failure, without the hint.
  for (const Ended& ended : nodes) {
    CHECK_MESSAGE(contains(ended.err, hint) != contains(ended.err, "; this is node "), ended.err);
  }
  CHECK(std::ranges::any_of(nodes, [](const Ended& ended) { return contains(ended.err, hint); }));
}

}  // namespace

TEST_CASE("an existing card without a connection is the verdict on both hosts") {
  if (from_build("CPPRUN_PYTHON").empty()) return skip(no_python);
  const Scene scene;
  if (!scene.hosts.why_not().empty()) return skip(scene.hosts.why_not());
  const Directory directory;
  const auto script = directory.write("sum_ranks.py", sum_ranks);
  for (const std::string interface : {"lo", "blind0", "fabric0,blind0"}) {
    CAPTURE(interface);
    const Options options = scene.options(interface);
    Command second(scene.node(1, Hosts::address(0), script), options);
    Command first(scene.node(0, Hosts::address(0), script), options);
    expect_verdict({first.wait(), second.wait()}, interface);
  }
}

TEST_CASE("a card that looks right and has no cable is the verdict on both hosts") {
  if (from_build("CPPRUN_PYTHON").empty()) return skip(no_python);
  const Scene scene;
  if (!scene.hosts.why_not().empty()) return skip(scene.hosts.why_not());
  // On the same network as its namesake, so nothing can be reported before it is used.
  for (const int host : {0, 1}) {
    run(scene.hosts.on(host, {"ip", "-4", "addr", "flush", "dev", Hosts::blind}));
    scene.hosts.add_address(host, "10.79.0." + std::to_string(host + 1) + "/24", Hosts::blind);
  }
  const Directory directory;
  const auto script = directory.write("sum_ranks.py", sum_ranks);
  const Options options = scene.options("blind0");
  Command second(scene.node(1, Hosts::address(0), script), options);
  Command first(scene.node(0, Hosts::address(0), script), options);
  const std::vector<Ended> nodes = {first.wait(), second.wait()};
  expect_verdict(nodes, "blind0");
  for (const Ended& ended : nodes) {
    if (contains(ended.err, hint)) {
      CHECK_MESSAGE(contains(ended.err, " cannot connect to 10.79.0."), ended.err);
    }
    CHECK_FALSE(contains(ended.err, "shares no network with"));
  }
}

TEST_CASE("a master whose own name is loopback, as on Debian, is reached all the same") {
  if (from_build("CPPRUN_PYTHON").empty()) return skip(no_python);
  const Scene scene;
  if (!scene.hosts.why_not().empty()) return skip(scene.hosts.why_not());
  scene.hosts.know(0, "127.0.1.1 node0\n");
  scene.hosts.know(1, "10.77.0.1 node0\n");
  const Directory directory;
  const auto script = directory.write("sum_ranks.py", sum_ranks);
  Command second(scene.node(1, "node0", script), scene.options(""));
  Command first(scene.node(0, "node0", script), scene.options(""));
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_first.out, "the sum is 1"));
}

}  // namespace wrong_interface_test
