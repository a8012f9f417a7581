// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/worker_settings.h"

#include <algorithm>
#include <cctype>

#include "launcher/plan/numa.h"
#include "proto/bounds.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

int count_workers(SettingReader& reader, const CommandLine& line) {
  const auto& workers = reader.flags().nproc_per_node;
  if (!workers.value) return 1;
  const auto& value = *workers.value;
  if (value == "cpu") return line.count_cpus();
  const int devices = value == "auto" || value == "gpu" ? line.count_devices() : 0;
  if (value == "auto") return devices > 0 ? devices : line.count_cpus();
  if (value == "gpu") {
    if (devices > 0) return devices;
    reader.complain(workers,
                    "=gpu finds no GPU on this machine (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES "
                    "hides them); give a number, or auto");
    return 1;
  }
  if (value == "xpu") {
    reader.complain(workers, "=xpu: cpprun counts NVIDIA's devices only; give the number of yours");
    return 1;
  }
  const auto count = whole_number(value);
  if (count && *count >= 1 && *count <= bounds::local_world_size_max) return *count;
  reader.complain(workers, "={} is neither a number from 1 to {} nor cpu, gpu or auto", value,
                  bounds::local_world_size_max);
  return 1;
}

ProgramKind program_kind(SettingReader& reader) {
  const auto& flags = reader.flags();
  if (is_on(flags.run_path)) {
    // It wins over the others, as in torchrun. What it saves there, a start of Python per worker by
    // forking the launcher's, is not to be had from a launcher without one.
    reader.note(flags.run_path, ": every worker runs the script in a Python of its own");
    return ProgramKind::python;
  }
  if (is_on(flags.module) && is_on(flags.no_python)) {
    reader.complain(flags.module, " and {} exclude each other; leave one of them out",
                    flags.no_python.source);
  }
  if (is_on(flags.module)) return ProgramKind::module;
  return is_on(flags.no_python) ? ProgramKind::no_python : ProgramKind::automatic;
}

void check_start_method(SettingReader& reader) {
  const auto& method = reader.flags().start_method;
  if (!method.value) return;
  const auto& value = *method.value;
  if (value != "spawn" && value != "fork" && value != "forkserver") {
    reader.complain(method, "={} is none of spawn, fork, forkserver", value);
  } else if (value != "spawn") {
    reader.note(method, " has no effect: workers are always executed as programs");
  }
}

void check_monitor_interval(SettingReader& reader) {
  constexpr double torchruns_default = 0.1;
  const auto& interval = reader.flags().monitor_interval;
  if (!interval.value || *interval.value == torchruns_default) return;
  reader.note(interval, " has no effect: cpprun does not poll, it is told at once");
}

// CUDA_VISIBLE_DEVICES has to name a device for each worker, or one would be without.
void read_virtual_local_rank(SettingReader& reader, Config& config) {
  const auto& flag = reader.flags().virtual_local_rank;
  config.virtual_local_rank = is_on(flag);
  const auto* visible = find_variable(reader.environment(), contract::cuda_visible_devices);
  if (!config.virtual_local_rank || visible == nullptr) return;
  const auto devices = visible->empty() ? 0 : split(*visible, ',').size();
  if (devices < static_cast<std::size_t>(config.local_world_size)) {
    reader.complain(flag, " gives each of {} workers one device, and {}={} names {}",
                    config.local_world_size, contract::cuda_visible_devices, *visible, devices);
  }
}

// The way of torch.distributed.launch, whose scripts read an option and not LOCAL_RANK.
void read_local_rank_flag(SettingReader& reader, Config& config) {
  const auto& wanted = reader.flags().pass_local_rank;
  if (!wanted.value) return;
  if (is_on(reader.flags().use_env)) {
    reader.complain(wanted, " and {} exclude each other; leave one of them out",
                    reader.flags().use_env.source);
  }
  const auto& name = *wanted.value;
  const bool plain = !name.empty() && name.front() != '-' &&
                     std::all_of(name.begin(), name.end(), [](unsigned char byte) {
                       return std::isalnum(byte) || byte == '-' || byte == '_';
                     });
  if (!plain) {
    return reader.complain(
        wanted, "={} is no name of an option without its dashes, as local-rank or local_rank",
        name);
  }
  config.local_rank_flag = name;
}

}  // namespace

void read_worker_settings(SettingReader& reader, const CommandLine& line, Config& config) {
  config.local_world_size = count_workers(reader, line);
  const auto& flags = reader.flags();
  config.role = flags.role.value.value_or(config.role);
  config.program.kind = program_kind(reader);
  check_start_method(reader);
  check_monitor_interval(reader);
  read_virtual_local_rank(reader, config);
  read_local_rank_flag(reader, config);
  if (const auto& binding = flags.numa_binding; binding.value) {
    config.numa_binding = numa_binding_named(*binding.value);
    if (!config.numa_binding) {
      reader.complain(binding, "={} is none of node, socket, exclusive, core-complex",
                      *binding.value);
    }
  }
}

}  // namespace cpprun
