// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/heartbeat_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "proto/link/message.h"
#include "proto/worker_contract.h"

namespace cpprun::io {

namespace {

// The clock that workers write. It may stand still while the machine is suspended.
Duration workers_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// No real job gets this far, so ignore the value.
std::uint64_t believable(std::uint64_t figure) {
  return figure > static_cast<std::uint64_t>(link::figure_max) ? 0 : figure;
}

// Ignores an impossible age.
Duration age_of(Duration moment, Duration now) {
  return moment > Duration{} && moment <= now ? now - moment : Duration{};
}

// In the order in which the worker reported them first. What is not a name is ignored.
std::vector<link::Metric> metrics_in(const HeartbeatRecord& record) {
  std::vector<link::Metric> metrics;
  for (const auto& [bytes, value] : record.metrics) {
    const std::string_view name(bytes, ::strnlen(bytes, sizeof bytes));
    if (!is_metric_name(name)) continue;
    metrics.push_back(
        {std::string(name), std::isfinite(value) ? std::optional(value) : std::nullopt});
  }
  return metrics;
}

std::optional<HeartbeatReading> read_one(int file, TimePoint now) {
  std::array<char, sizeof(HeartbeatRecord)> bytes{};
  const ssize_t count = ::pread(file, bytes.data(), bytes.size(), 0);
  if (count < 0) return std::nullopt;
  const auto record = parse_heartbeat({bytes.data(), static_cast<std::size_t>(count)});
  if (!record || record->beats == 0) return std::nullopt;
  const Duration by_worker = workers_now();
  HeartbeatReading reading{.local_rank = {},
                           .beats = record->beats,
                           .last = now - age_of(Duration{record->last_nanoseconds}, by_worker),
                           .step = believable(record->step),
                           .samples = believable(record->samples),
                           .checkpoint_step = believable(record->checkpoint_step),
                           .total = believable(record->total),
                           .metrics = metrics_in(*record)};
  if (record->checkpoint_seconds != 0) {
    const auto saved = std::chrono::seconds(record->checkpoint_seconds);
    reading.since_checkpoint = age_of(saved, by_worker);
  }
  return reading;
}

}  // namespace

std::string HeartbeatFiles::make(LocalRank local_rank) {
  FileDescriptor file(::memfd_create("cpprun-heartbeat", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), sizeof(HeartbeatRecord)) != 0) return {};
  // A worker library that knows only the first 64 bytes shortens the file. If the kernel cannot
  // seal, a worker can fill memory with the file, as it can with its own memory.
  static_cast<void>(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL));
  // By our pid, not as an inherited descriptor: programs that start other programs close those.
  std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
  files_.insert_or_assign(local_rank, std::move(file));
  return path;
}

std::vector<HeartbeatReading> HeartbeatFiles::read(TimePoint now) const {
  std::vector<HeartbeatReading> readings;
  for (const auto& [local_rank, file] : files_) {
    auto reading = read_one(file.get(), now);
    if (!reading) continue;
    reading->local_rank = local_rank;
    readings.push_back(*std::move(reading));
  }
  return readings;
}

}  // namespace cpprun::io
