// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/host.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace topology_test {

using namespace cpprun;

namespace {

namespace fs = std::filesystem;

// The files of a simulated machine.
struct Machine {
  Machine() {
    for (int cpu = 0; cpu < 4; ++cpu) {
      const auto directory = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      write(directory + "/topology/thread_siblings_list", cpu % 2 == 0 ? "0,2" : "1,3");
      write(directory + "/topology/physical_package_id", "0");
      write(directory + "/cache/index0/type", "Data");
      write(directory + "/cache/index0/level", "1");
      write(directory + "/cache/index0/shared_cpu_list", std::to_string(cpu));
      write(directory + "/cache/index3/type", "Unified");
      write(directory + "/cache/index3/level", "3");
      write(directory + "/cache/index3/shared_cpu_list", "0-3");
    }
    write("sys/devices/system/node/node0/cpulist", "0,2");
    write("sys/devices/system/node/node1/cpulist", "1,3");
    device("0000:8a:00.0", "1", "GPU-bbbb", "1");
    device("0000:17:00.0", "0", "GPU-aaaa", "-1");
  }
  ~Machine() { fs::remove_all(root); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  void device(const std::string& place, const std::string& minor, const std::string& uuid,
              const std::string& node) const {
    write("proc/driver/nvidia/gpus/" + place + "/information",
          "Model: \t\t Something\nGPU UUID: \t " + uuid + "\nDevice Minor: \t " + minor);
    write("dev/nvidia" + minor, "");
    write("sys/bus/pci/devices/" + place + "/numa_node", node);
  }
  Result<Topology> read(const Environment& environment = {}) const {
    return io::read_topology(environment, {0, 1, 3}, root.string());
  }

  fs::path root = fs::temp_directory_path() / ("cpprun_topology_" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("processors, nodes and devices are read from the kernel's files") {
  const Machine machine;
  const auto topology = machine.read();
  REQUIRE(topology.has_value());
  CHECK(topology->cpus == std::map<int, CpuLocation>{{0, {.core = 0, .socket = 0, .cache = 0}},
                                                     {1, {.core = 1, .socket = 0, .cache = 0}},
                                                     {3, {.core = 1, .socket = 0, .cache = 0}}});
  CHECK(topology->nodes == std::map<int, CpuSet>{{0, {0, 2}}, {1, {1, 3}}});
  CHECK(topology->node_of_device == std::vector<int>{0, 1});
}

TEST_CASE("devices are numbered as the workers see them, and those without a file are skipped") {
  const Machine machine;
  using Nodes = std::vector<int>;
  CHECK(machine.read({{"CUDA_VISIBLE_DEVICES", "1, 0"}})->node_of_device == Nodes{1, 0});
  CHECK(machine.read({{"CUDA_VISIBLE_DEVICES", "GPU-bb"}})->node_of_device == Nodes{1});
  CHECK(machine.read({{"CUDA_VISIBLE_DEVICES", ""}})->node_of_device.empty());
  CHECK(machine.read({{"CUDA_VISIBLE_DEVICES", "0,MIG-7"}}).error().reason ==
        "CUDA_VISIBLE_DEVICES=0,MIG-7: the NUMA node of \"MIG-7\" is unknown");
  fs::remove(machine.root / "dev/nvidia0");
  CHECK(machine.read()->node_of_device == Nodes{1});
}

TEST_CASE("this machine has processors, and a kernel without NUMA has one node") {
  const auto own = io::own_cpus();
  CHECK_FALSE(own.empty());
  const auto topology = io::read_topology({{"CUDA_VISIBLE_DEVICES", ""}}, own);
  REQUIRE(topology.has_value());
  CHECK(topology->cpus.size() == own.size());
  CHECK(io::read_topology({}, {0, 1}, "/nowhere")->nodes == std::map<int, CpuSet>{{0, {0, 1}}});
}

}  // namespace topology_test
