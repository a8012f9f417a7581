// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/devices.h"

#include <doctest/doctest.h>

namespace numa_test {

using namespace cpprun;

namespace {

// Two sockets of two nodes of four cores with two threads each: core c has the processors c and
// c+16. Two cores share a cache. The first three nodes have a GPU each, and the first a second one.
Topology machine() {
  Topology topology;
  for (int node = 0; node < 4; ++node) {
    for (int core = node * 4; core < node * 4 + 4; ++core) {
      for (const int cpu : {core, core + 16}) {
        topology.nodes[node].insert(cpu);
        topology.cpus[cpu] = {.core = core, .socket = node / 2, .cache = core / 2 * 2};
      }
    }
  }
  topology.node_of_device = {0, 1, 2, 0};
  return topology;
}

using Lists = std::vector<std::string>;

Lists bound(NumaBinding binding, const Topology& topology, int workers) {
  const auto cpus = bind_workers(binding, topology, workers);
  if (!cpus) return {cpus.error().reason};
  Lists lists;
  for (const auto& each : *cpus) lists.push_back(to_cpu_list(each));
  return lists;
}

}  // namespace

TEST_CASE("node: a worker gets all processors of its GPU's node") {
  CHECK(bound(NumaBinding::node, machine(), 4) ==
        Lists{"0-3,16-19", "4-7,20-23", "8-11,24-27", "0-3,16-19"});
}

TEST_CASE("socket: a worker gets all processors of its GPU's socket") {
  CHECK(bound(NumaBinding::socket, machine(), 3) == Lists{"0-7,16-23", "0-7,16-23", "8-15,24-31"});
}

TEST_CASE("exclusive: the GPUs of a node share its cores evenly, and the first ones get the rest") {
  CHECK(bound(NumaBinding::exclusive, machine(), 4) ==
        Lists{"0-1,16-17", "4-7,20-23", "8-11,24-27", "2-3,18-19"});
  auto crowded = machine();
  crowded.node_of_device = {0, 0, 0};
  CHECK(bound(NumaBinding::exclusive, crowded, 3) == Lists{"0-1,16-17", "2,18", "3,19"});
  // A GPU that this job does not use keeps its share.
  CHECK(bound(NumaBinding::exclusive, crowded, 1) == Lists{"0-1,16-17"});
  crowded.node_of_device.assign(5, 0);
  CHECK(bound(NumaBinding::exclusive, crowded, 5) ==
        Lists{"NUMA node 0 has 4 cores, too few for 5 workers"});
}

TEST_CASE("core-complex: the GPUs of a node take its caches in turn, the largest first") {
  CHECK(bound(NumaBinding::core_complex, machine(), 4) ==
        Lists{"0-1,16-17", "4-5,20-21", "8-9,24-25", "2-3,18-19"});
  auto partly = machine();
  partly.cpus.erase(0);
  CHECK(bound(NumaBinding::core_complex, partly, 1) == Lists{"2-3,18-19"});
}

TEST_CASE("processors that cpprun may not use are not assigned") {
  auto partly = machine();
  for (int cpu = 0; cpu < 4; ++cpu) partly.cpus.erase(cpu);
  CHECK(bound(NumaBinding::node, partly, 1) == Lists{"16-19"});
  for (int cpu = 16; cpu < 20; ++cpu) partly.cpus.erase(cpu);
  CHECK(bound(NumaBinding::node, partly, 1) ==
        Lists{"local rank 0 needs NUMA node 0, but cpprun may not use any of its CPUs"});
}

TEST_CASE("more workers than GPUs are rejected") {
  CHECK(bound(NumaBinding::node, machine(), 5) ==
        Lists{"4 GPUs for 5 workers, but each worker needs its own GPU\n  hint: start at most one "
              "worker per GPU"});
}

TEST_CASE("without GPUs the workers are spread over the nodes, in order") {
  auto plain = machine();
  plain.node_of_device.clear();
  CHECK(bound(NumaBinding::node, plain, 2) == Lists{"0-3,16-19", "8-11,24-27"});
  CHECK(bound(NumaBinding::exclusive, plain, 8).front() == "0-1,16-17");
  CHECK(bound(NumaBinding::exclusive, plain, 8).back() == "14-15,30-31");
}

TEST_CASE("a binding is printed on one line") {
  CHECK(to_text({{0, 1}, {0, 1}, {2}}) == "local ranks 0-1 on 0-1, local rank 2 on 2");
  CHECK(numa_binding_named("exclusive") == NumaBinding::exclusive);
  CHECK_FALSE(numa_binding_named("Node"));
}

TEST_CASE("a binding has a note with the processors of each worker") {
  const auto near = resolve_binding(NumaBinding::node, machine(), 4, 2);
  REQUIRE(near);
  CHECK(to_cpu_list(near->cpus.at(1)) == "4-7,20-23");
  CHECK(near->notes == Lists{"CPU binding: local rank 0 on 0-3,16-19, local rank 1 on 4-7,20-23"});
  auto plain = machine();
  plain.node_of_device.clear();
  const auto spread = resolve_binding(NumaBinding::node, plain, 0, 1);
  REQUIRE(spread);
  CHECK(spread->notes == Lists{"CPU binding: local rank 0 on 0-3,16-19",
                               "no GPU found; spreading the workers over the NUMA nodes"});
}

TEST_CASE("a binding error names the flag that requested it") {
  const auto refusal = [](const Result<Topology>& topology, int devices, int workers) {
    return resolve_binding(NumaBinding::node, topology, devices, workers).error().reason;
  };
  CHECK(refusal(failure("cannot locate a device"), 0, 1) ==
        "--numa-binding: cannot locate a device");
  CHECK(refusal(machine(), 4, 5).starts_with("--numa-binding: 4 GPUs for 5 workers"));
  auto unseen = machine();
  unseen.node_of_device.clear();
  CHECK(refusal(unseen, 2, 1) ==
        "--numa-binding: cannot find out where the GPUs are: /proc/driver/nvidia/gpus lists none");
}

}  // namespace numa_test
