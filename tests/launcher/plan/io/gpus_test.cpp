// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/host.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpus_io_test {

using namespace cpprun;

namespace {

namespace fs = std::filesystem;

// The files of a simulated machine.
struct Machine {
  Machine() { fs::create_directories(root); }
  ~Machine() { fs::remove_all(root); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  }
  void on_bus(const std::string& place, const std::string& vendor, const std::string& kind) const {
    write("sys/bus/pci/devices/" + place + "/vendor", vendor);
    write("sys/bus/pci/devices/" + place + "/class", kind);
  }
  void in_driver(const std::string& place, const std::string& minor) const {
    write("proc/driver/nvidia/gpus/" + place + "/information",
          "Model: \t\t Something\nGPU UUID: \t GPU-1\nDevice Minor: \t " + minor);
  }
  GpuCounts count() const { return io::count_gpus(root.string()); }

  fs::path root = fs::temp_directory_path() / ("cpprun_gpus_" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("a machine without GPUs has none") {
  const Machine machine;
  machine.on_bus("0000:00:02.0", "0x8086", "0x030000");  // a display of another vendor
  CHECK(machine.count() == GpuCounts{});
}

TEST_CASE("GPUs are counted on the bus, in the driver, and by the files that can be opened") {
  const Machine machine;
  for (const std::string place : {"0000:17:00.0", "0000:2a:00.0", "0000:3b:00.0"}) {
    machine.on_bus(place, "0x10de", "0x030200");
  }
  machine.on_bus("0000:04:00.0", "0x10de", "0x068000");  // a bridge
  machine.on_bus("0000:17:00.4", "0x10de", "0x030200");
  machine.write("sys/bus/pci/devices/0000:17:00.4/physfn/vendor",
                "0x10de");  // a virtual function of the first
  machine.in_driver("0000:17:00.0", "0");
  machine.in_driver("0000:2a:00.0", "1");
  machine.write("dev/nvidia0", "");
  CHECK(machine.count() == GpuCounts{.on_bus = 3, .in_driver = 2, .usable = 1});
}

}  // namespace gpus_io_test
