// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/machine_memory.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace machine_memory_test {

using namespace cpprun;

namespace {

// A machine's /proc and /sys, as far as memory is concerned.
class PretendedMachine {
 public:
  PretendedMachine() {
    char name[] = "/tmp/cpprun_memory_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root = name;
    write("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 5 kB\n");
  }
  ~PretendedMachine() { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  std::uint64_t usable() const { return usable_memory_bytes(root); }

  std::string root;
};

}  // namespace

TEST_CASE("without control groups the machine's memory counts") {
  const PretendedMachine machine;
  CHECK(machine.usable() == 8388608ULL * 1024);
}

TEST_CASE("a limit of any parent control group counts") {
  const PretendedMachine machine;
  machine.write("/proc/self/cgroup", "0::/slice/job\n");
  machine.write("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  CHECK(machine.usable() == 8388608ULL * 1024);
  machine.write("/sys/fs/cgroup/slice/memory.max", "1073741824\n");
  CHECK(machine.usable() == 1073741824);
  machine.write("/sys/fs/cgroup/slice/job/memory.max", "536870912\n");
  CHECK(machine.usable() == 536870912);
}

TEST_CASE("control groups v1 are supported, and a container that sees only its own group") {
  const PretendedMachine machine;
  machine.write("/proc/self/cgroup", "12:cpu,cpuacct:/\n9:memory:/docker/abc\n0::/\n");
  machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  CHECK(machine.usable() == 2147483648);
  machine.write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(machine.usable() == 2147483648);
}

TEST_CASE("in a small control group clients get half of it, and room for the process remains") {
  const PretendedMachine machine;
  machine.write("/proc/self/cgroup", "0::/job\n");
  machine.write("/sys/fs/cgroup/job/memory.max", "67108864\n");
  CHECK(memory_of_this_machine(machine.root).bytes_max == 33554432);
  machine.write("/sys/fs/cgroup/job/memory.max", "1048576\n");
  CHECK(memory_of_this_machine(machine.root).bytes_max == 8388608);
}

TEST_CASE("this machine has some memory, and clients get at most half of it") {
  CHECK(usable_memory_bytes() > 1'000'000);
  CHECK(usable_memory_bytes() < MemoryLimits::none);
  CHECK(memory_of_this_machine().bytes_max < MemoryLimits::none);
}

}  // namespace machine_memory_test
