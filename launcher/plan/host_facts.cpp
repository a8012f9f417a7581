// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/host_facts.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string_view>
#include <utility>

namespace cpprun {

namespace {

constexpr std::uint64_t open_files_least = 16'384;  // for NCCL and data loaders of eight GPUs
constexpr std::uint64_t processes_least = 4'096;    // includes threads
constexpr std::uint64_t shared_size_least = 1ULL << 30;
constexpr std::uint64_t shared_free_least = 256ULL << 20;
constexpr std::uint64_t temporary_free_least = 1ULL << 30;

bool has_no_driver(const GpuCounts& gpus) {
  return gpus.on_bus > 0 && gpus.in_driver == 0;
}

using AddFinding = std::function<void(std::string what, std::string hint)>;

void judge_gpus(const HostFacts& facts, const AddFinding& add) {
  const auto& missing = facts.missing_gpus;
  if (!missing.empty()) {
    constexpr std::string_view mark = "\n  hint: ";
    const auto cut = missing.find(mark);
    return add(missing.substr(0, cut),
               cut == missing.npos ? "" : missing.substr(cut + mark.size()));
  }
  if (!has_no_driver(facts.gpus)) return;
  add(fmt::format("PCI bus has {} NVIDIA GPU{}, but no driver is loaded", facts.gpus.on_bus,
                  facts.gpus.on_bus == 1 ? "" : "s"),
      "load the driver (modprobe nvidia; nvidia-smi shows what is wrong), or pass the devices to "
      "this container");
}

void judge_limits(const HostFacts& facts, const AddFinding& add) {
  const auto& limits = facts.limits;
  if (limits.open_files && *limits.open_files < open_files_least) {
    add(fmt::format("open files are limited to {} per process", *limits.open_files),
        fmt::format("raise the hard limit to {} or more: nofile in /etc/security/limits.conf, "
                    "LimitNOFILE= of a service, --ulimit nofile= of a container",
                    open_files_least));
  }
  if (limits.processes && *limits.processes < processes_least) {
    add(fmt::format("this user is limited to {} processes and threads", *limits.processes),
        fmt::format("raise nproc to {} or more in /etc/security/limits.conf", processes_least));
  }
  if (facts.has_infiniband && limits.locked_bytes) {
    add(fmt::format("locked memory is limited to {} per process, but RDMA locks all its buffers",
                    size_text(*limits.locked_bytes)),
        "set memlock to unlimited: /etc/security/limits.conf, LimitMEMLOCK=infinity, --ulimit "
        "memlock=-1");
  }
}

void judge_disks(const HostFacts& facts, const AddFinding& add) {
  const auto& shared = facts.shared_memory;
  const char* const more_shared =
      "enlarge it: docker run --shm-size=16g or --ipc=host, an emptyDir with medium Memory, "
      "mount -o remount,size=16g /dev/shm";
  if (!shared.refusal.empty()) {
    add(fmt::format("{} cannot be used: {}", shared.path, shared.refusal), more_shared);
  } else if (shared.size < shared_size_least) {
    add(fmt::format("{} has a size of only {}, which NCCL and data loader workers may exceed",
                    shared.path, size_text(shared.size)),
        more_shared);
  } else if (shared.free < shared_free_least) {
    add(fmt::format("{} has only {} free", shared.path, size_text(shared.free)),
        "remove the files that killed jobs left there");
  }
  const auto& disk = facts.temporary;
  if (!disk.refusal.empty()) {
    add(fmt::format("cannot write to {}: {}", disk.path, disk.refusal),
        "set TMPDIR to a writable directory on a disk with free space");
  } else if (disk.free < temporary_free_least) {
    add(fmt::format("{} has only {} free", disk.path, size_text(disk.free)),
        "free some space, or set TMPDIR to a directory on another disk");
  }
}

}  // namespace

std::vector<Finding> own_findings(const HostFacts& facts, const std::string& host) {
  std::vector<Finding> findings;
  const auto add = [&](std::string what, std::string hint) {
    findings.push_back({host, std::move(what), std::move(hint)});
  };
  judge_gpus(facts, add);
  judge_limits(facts, add);
  judge_disks(facts, add);
  return findings;
}

bool lacks_gpus(const HostFacts& facts) {
  return !facts.missing_gpus.empty() || has_no_driver(facts.gpus);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double step = 1024;
  if (bytes < static_cast<std::uint64_t>(step)) return fmt::format("{} B", bytes);
  auto size = static_cast<double>(bytes) / step;
  std::size_t unit = 0;
  for (; size >= step && unit + 1 < units.size(); ++unit) size /= step;
  return fmt::format("{:.1f} {}", size, units[unit]);
}

std::string memory_text(double bytes) {
  constexpr double kilo = 1024;
  const double mebibytes = bytes / kilo / kilo;
  return mebibytes < kilo ? fmt::format("{:.0f} MiB", mebibytes)
                          : fmt::format("{:.1f} GiB", mebibytes / kilo);
}

}  // namespace cpprun
