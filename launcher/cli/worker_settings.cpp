// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/worker_settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "launcher/plan/numa.h"
#include "proto/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

int count_workers(SettingReader& reader, const CommandLine& line) {
  const auto* workers = reader.find("nproc-per-node");
  if (workers == nullptr) return 1;
  const auto& value = workers->value;
  if (value == "cpu") return line.cpu_count;
  if (value == "auto") return line.device_count > 0 ? line.device_count : line.cpu_count;
  if (value == "gpu") {
    if (line.device_count > 0) return line.device_count;
    reader.complain(
        "{}=gpu finds no GPU on this machine (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES "
        "hides them); give a number, or auto",
        workers->source);
    return 1;
  }
  if (value == "xpu") {
    reader.complain("{}=xpu: cpprun counts NVIDIA's devices only; give the number of yours",
                    workers->source);
    return 1;
  }
  const auto count = whole_number(value);
  if (count && *count >= 1 && *count <= bounds::local_world_size_max) return *count;
  reader.complain("{}={} is neither a number from 1 to {} nor cpu, gpu or auto", workers->source,
                  value, bounds::local_world_size_max);
  return 1;
}

ProgramKind program_kind(SettingReader& reader) {
  if (reader.has("run-path")) {
    // It wins over the others, as in torchrun. What it saves there, a start of Python per worker by
    // forking the launcher's, is not to be had from a launcher without one.
    reader.note("{}: every worker runs the script in a Python of its own",
                reader.source("run-path"));
    return ProgramKind::python;
  }
  const bool module = reader.has("module");
  if (module && reader.has("no-python")) {
    reader.complain("{} and {} exclude each other; leave one of them out", reader.source("module"),
                    reader.source("no-python"));
  }
  if (module) return ProgramKind::module;
  return reader.has("no-python") ? ProgramKind::no_python : ProgramKind::automatic;
}

void check_start_method(SettingReader& reader) {
  const auto* method = reader.find("start-method");
  if (method == nullptr) return;
  const auto& value = method->value;
  if (value != "spawn" && value != "fork" && value != "forkserver") {
    reader.complain("{}={} is none of spawn, fork, forkserver", method->source, value);
  } else if (value != "spawn") {
    reader.note("{} has no effect: workers are always executed as programs", method->source);
  }
}

void check_monitor_interval(SettingReader& reader) {
  const auto* interval = reader.find("monitor-interval");
  if (interval == nullptr) return;
  char* end = nullptr;
  const double seconds = std::strtod(interval->value.c_str(), &end);
  if (interval->value.empty() || *end != '\0' || !(seconds > 0)) {
    reader.complain("{}={} is not a number of seconds above 0", interval->source, interval->value);
  } else if (seconds != 0.1) {
    reader.note("{} has no effect: cpprun does not poll, it is told at once", interval->source);
  }
}

// CUDA_VISIBLE_DEVICES has to name a device for each worker, or one would be without.
void read_virtual_local_rank(SettingReader& reader, Config& config) {
  config.virtual_local_rank = reader.has("virtual-local-rank");
  const auto* visible = find_variable(reader.environment(), contract::cuda_visible_devices);
  if (!config.virtual_local_rank || visible == nullptr) return;
  const auto devices = visible->empty() ? 0 : split(*visible, ',').size();
  if (devices < static_cast<std::size_t>(config.local_world_size)) {
    reader.complain("{} gives each of {} workers one device, and {}={} names {}",
                    reader.source("virtual-local-rank"), config.local_world_size,
                    contract::cuda_visible_devices, *visible, devices);
  }
}

// The way of torch.distributed.launch, whose scripts read an option and not LOCAL_RANK.
void read_local_rank_flag(SettingReader& reader, Config& config) {
  const auto* wanted = reader.find("pass-local-rank");
  if (wanted == nullptr) return;
  if (reader.has("use-env")) {
    reader.complain("{} and {} exclude each other; leave one of them out", wanted->source,
                    reader.source("use-env"));
  }
  const auto& name = wanted->value;
  const bool plain = !name.empty() && name.front() != '-' &&
                     std::all_of(name.begin(), name.end(), [](unsigned char byte) {
                       return std::isalnum(byte) || byte == '-' || byte == '_';
                     });
  if (!plain) {
    return reader.complain(
        "{}={} is no name of an option without its dashes, as local-rank or local_rank",
        wanted->source, name);
  }
  config.local_rank_flag = name;
}

}  // namespace

void read_worker_settings(SettingReader& reader, const CommandLine& line, Config& config) {
  config.local_world_size = count_workers(reader, line);
  if (auto role = reader.name("role", bounds::role_bytes_max)) config.role = std::move(*role);
  config.program.kind = program_kind(reader);
  check_start_method(reader);
  check_monitor_interval(reader);
  read_virtual_local_rank(reader, config);
  read_local_rank_flag(reader, config);
  if (const auto* binding = reader.find("numa-binding")) {
    config.numa_binding = numa_binding_named(binding->value);
    if (!config.numa_binding) {
      reader.complain("{}={} is none of node, socket, exclusive, core-complex", binding->source,
                      binding->value);
    }
  }
}

}  // namespace cpprun
