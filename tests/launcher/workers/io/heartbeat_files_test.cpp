// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/heartbeat_files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include "launcher/workers/io/process_tree.h"
#include "proto/worker_contract.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_descriptor.h"

namespace heartbeat_files_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr LocalRank first{0};

HeartbeatRecord beating() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  HeartbeatRecord record{.rank = 3, .pid = 7, .beats = 5, .step = 41, .samples = 82};
  std::memcpy(record.magic, heartbeat_magic.data(), heartbeat_magic.size());
  record.last_nanoseconds = now.tv_sec * 1'000'000'000LL + now.tv_nsec;
  return record;
}

void write_to(const std::string& path, std::string_view bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  REQUIRE(file);
  REQUIRE(::pwrite(file.get(), bytes.data(), bytes.size(), 0) ==
          static_cast<ssize_t>(bytes.size()));
}

void write_to(const std::string& path, const HeartbeatRecord& record) {
  write_to(path, {reinterpret_cast<const char*>(&record), sizeof record});
}

}  // namespace

TEST_CASE("a worker's heartbeats are read from its file") {
  io::HeartbeatFiles files;
  const std::string path = files.make(first);
  CHECK(files.read(boot_now()).empty());
  HeartbeatRecord record = beating();
  record.checkpoint_step = 40;
  record.checkpoint_seconds =
      static_cast<std::uint32_t>(record.last_nanoseconds / 1'000'000'000) - 10;
  const TimePoint before = boot_now();
  write_to(path, record);
  const auto readings = files.read(boot_now());
  REQUIRE(readings.size() == 1);
  CHECK(readings[0].local_rank == first);
  CHECK(readings[0].beats == 5);
  CHECK(readings[0].step == 41);
  CHECK(readings[0].samples == 82);
  CHECK(readings[0].checkpoint_step == 40);
  CHECK(readings[0].last <= boot_now());
  CHECK(readings[0].last > before - 1s);
  REQUIRE(readings[0].since_checkpoint);
  CHECK(*readings[0].since_checkpoint >= 10s);
}

TEST_CASE("the total and the metrics of a worker are read, and invalid names are ignored") {
  io::HeartbeatFiles files;
  HeartbeatRecord record = beating();
  record.total = 900;
  record.metrics[0] = {"loss", 0.5};
  record.metrics[1] = {"two words", 1};
  record.metrics[2] = {"lr", std::numeric_limits<double>::quiet_NaN()};
  std::memset(record.metrics[3].name, 'x', sizeof record.metrics[3].name);
  write_to(files.make(first), record);
  const auto readings = files.read(boot_now());
  REQUIRE(readings.size() == 1);
  CHECK(readings[0].total == 900);
  CHECK(readings[0].metrics ==
        std::vector<link::Metric>{{"loss", 0.5}, {"lr", {}}, {std::string(16, 'x'), 0.0}});
}

TEST_CASE("a heartbeat of only the first 64 bytes is read") {
  io::HeartbeatFiles files;
  const HeartbeatRecord record = beating();
  const std::string path = files.make(first);
  CHECK(::truncate(path.c_str(), 64) == 0);  // as older worker libraries do
  write_to(path, std::string_view(reinterpret_cast<const char*>(&record), 64));
  const auto readings = files.read(boot_now());
  REQUIRE(readings.size() == 1);
  CHECK(readings[0].step == 41);
  CHECK(readings[0].total == 0);
  CHECK(readings[0].metrics.empty());
}

TEST_CASE("garbage is no heartbeat, and impossible numbers are ignored") {
  io::HeartbeatFiles files;
  const std::string path = files.make(first);
  write_to(path, std::string(sizeof(HeartbeatRecord), 'x'));
  CHECK(files.read(boot_now()).empty());
  HeartbeatRecord record = beating();
  record.last_nanoseconds = INT64_MAX;
  record.step = UINT64_MAX;
  record.checkpoint_seconds = UINT32_MAX;
  write_to(path, record);
  const TimePoint now = boot_now();
  const auto readings = files.read(now);
  REQUIRE(readings.size() == 1);
  CHECK(readings[0].last == now);
  CHECK(readings[0].step == 0);
  CHECK(readings[0].since_checkpoint == 0s);
  record.last_nanoseconds = INT64_MIN;
  write_to(path, record);
  CHECK(files.read(now)[0].last == now);
}

TEST_CASE("a worker cannot enlarge its file, and a file that is too short is ignored") {
  io::HeartbeatFiles files;
  const std::string path = files.make(first);
  CHECK(::truncate(path.c_str(), 1 << 20) != 0);
  CHECK(errno == EPERM);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(::pwrite(file.get(), "x", 1, sizeof(HeartbeatRecord)) < 0);
  CHECK(errno == EPERM);
  write_to(path, beating());
  CHECK(files.read(boot_now()).size() == 1);
  CHECK(::truncate(path.c_str(), 63) == 0);
  CHECK(files.read(boot_now()).empty());
}

TEST_CASE("a new attempt has new files") {
  io::HeartbeatFiles files;
  write_to(files.make(first), beating());
  CHECK(files.read(boot_now()).size() == 1);
  files.begin();
  CHECK(files.read(boot_now()).empty());
  static_cast<void>(files.make(first));
  CHECK(files.read(boot_now()).empty());
}

TEST_CASE("memory and CPU time of a running process are read") {
  const auto waited = [] {
    std::int64_t on_cpu = 0;
    std::int64_t ready = 0;
    std::ifstream("/proc/" + std::to_string(::getpid()) + "/schedstat") >> on_cpu >> ready;
    return std::chrono::nanoseconds(ready);
  };
  const auto before = waited();
  const Duration own_wait = io::cpu_wait_of(::getpid());
  CHECK(own_wait >= before);
  CHECK(own_wait <= waited());
  CHECK(io::cpu_wait_of(0) == 0s);
  const auto own = io::usage_of(::getpid());
  REQUIRE(own);
  CHECK(own->resident_kib > 100);
  CHECK(own->resident_kib < 10'000'000);
  CHECK(own->cpu >= 0s);
  CHECK(own->cpu < 1h);
  CHECK_FALSE(io::usage_of(0));
}

}  // namespace heartbeat_files_test
