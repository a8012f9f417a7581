// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "launcher/plan/devices.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

bool starts_name(char byte) {
  return std::isalpha(static_cast<unsigned char>(byte)) || byte == '_';
}

bool continues_name(char byte) {
  return starts_name(byte) || std::isdigit(static_cast<unsigned char>(byte));
}

// Replaces `$name` and `${name}` if the name is known, and `$$` by `$`. All else stays unchanged.
// These are the rules of torchrun's macros and of its prefix template.
std::string substitute(std::string_view text, const Environment& values) {
  std::string result;
  while (!text.empty()) {
    const auto dollar = text.find('$');
    result += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const bool braced = text.starts_with("${");
    const std::size_t begin = braced ? 2 : 1;
    std::size_t end = begin;
    while (end < text.size() &&
           (end == begin ? starts_name(text[end]) : continues_name(text[end]))) {
      ++end;
    }
    const auto* value = find_variable(values, text.substr(begin, end - begin));
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    if (value == nullptr || !closed) {
      result += '$';
      text.remove_prefix(1);
      continue;
    }
    result += *value;
    text.remove_prefix(end + (braced ? 1 : 0));
  }
  return result;
}

void set(Environment& variables, std::string_view name, std::string value) {
  variables[std::string(name)] = std::move(value);
}

void set(Environment& variables, std::string_view name, int value) {
  set(variables, name, std::to_string(value));
}

// The single device that a worker with a virtual local rank sees: its entry in the list that cpprun
// was given, or the device with its index.
std::string device_of(const VisibleDevices& visible, int local_rank) {
  if (visible.list == nullptr) return std::to_string(local_rank);
  // The list is known to have an entry for each worker: read_virtual_local_rank checked it.
  return listed_devices(*visible.list).at(static_cast<std::size_t>(local_rank));
}

// Every variable that torchrun sets, and those that only cpprun sets.
Environment variables_of(const Config& config, const link::Sealed& sealed, const NodeFacts& facts,
                         int local_rank) {
  using namespace contract;
  Environment variables;
  if (config.virtual_local_rank) {
    set(variables, contract::local_rank, 0);
    const auto visible = visible_devices(facts.environment);
    const std::string device = device_of(visible, local_rank);
    set(variables, cuda_visible_devices, device);
    set(variables, visible.variable, device);
  } else {
    set(variables, contract::local_rank, local_rank);
  }
  set(variables, rank, sealed.base_rank.value + local_rank);
  set(variables, group_rank, sealed.group_rank.value);
  set(variables, role_rank, sealed.role_base_rank + local_rank);
  set(variables, role_name, config.role);
  set(variables, local_world_size, config.local_world_size);
  set(variables, world_size, sealed.world_size);
  set(variables, group_world_size, sealed.group_world_size);
  set(variables, role_world_size, sealed.role_world_size);
  const bool is_local = facts.local_store_port != 0;
  set(variables, master_addr, is_local ? std::string("127.0.0.1") : facts.master_host);
  set(variables, master_port, is_local ? facts.local_store_port : sealed.store_port);
  set(variables, real_master_addr, facts.master_host);
  set(variables, restart_count, sealed.restart_count);
  set(variables, max_restarts, config.restarts.max);
  set(variables, run_id, config.job);
  // torch compares with exactly this spelling.
  set(variables, use_agent_store, "True");
  set(variables, signals_to_handle, config.signals_text);
  if (find_variable(facts.environment, nccl_async_error_handling) == nullptr) {
    set(variables, nccl_async_error_handling, "1");
  }
  if (threads_note(config, facts.environment)) set(variables, omp_num_threads, "1");
  if (facts.sockets.gloo) set(variables, gloo_socket_ifname, *facts.sockets.gloo);
  if (facts.sockets.tensorpipe) set(variables, tp_socket_ifname, *facts.sockets.tensorpipe);
  if (facts.sockets.nccl) set(variables, nccl_socket_ifname, *facts.sockets.nccl);
  // A cpprun that is a worker of another cpprun keeps the outer token too: either may then find and
  // kill its processes.
  const auto* outer = find_variable(facts.environment, node_token);
  set(variables, node_token,
      outer == nullptr || outer->empty() ? facts.node_token : *outer + "," + facts.node_token);
  return variables;
}

// The configured handling of one stream of one worker.
struct StreamOptions {
  bool redirect = false;
  bool tee = false;
  StreamTarget silent = StreamTarget::nowhere;  // if the console filter hides it
  std::string file;
  const std::vector<std::string>& duplicate_words;
  std::string duplicate_file;
};

StreamPlan stream_plan(const Config& config, int local_rank, const StreamOptions& options) {
  const auto& filter = config.logs.console_ranks;
  // Logs are disabled: streams stay on the console even with redirects, as in torchrun.
  if (config.logs.disabled) return {};
  const bool heard =
      !filter || std::find(filter->begin(), filter->end(), local_rank) != filter->end();
  if (options.tee && heard) {
    StreamPlan plan{StreamTarget::tee, options.file};
    plan.file_bytes_max = config.logs.file_bytes_max;
    if (!options.duplicate_words.empty()) {
      plan.duplicate_words = options.duplicate_words;
      plan.duplicate_file = options.duplicate_file;
    }
    return plan;
  }
  if ((options.tee || options.redirect) && !options.file.empty()) {
    const auto limit = config.logs.file_bytes_max;
    // A file that is the worker's own descriptor cannot be limited in size.
    StreamPlan plan{limit == 0 ? StreamTarget::file : StreamTarget::kept, options.file};
    plan.file_bytes_max = limit;
    return plan;
  }
  if (heard && !options.redirect) return {};
  // Neither shown nor kept in a file, but the report needs its last lines.
  return {options.silent, ""};
}

// Which failure came first is judged by the workers' last output, so their stderr passes through
// cpprun. At a terminal it passes through a pseudo-terminal, which preserves colors and progress
// bars. If stdout goes to the same place, it takes the same path; otherwise the order of lines
// could change.
void pass_stderr_through(const Config& config, const ConsoleFacts& console, WorkerSpec& spec) {
  if (config.logs.stderr_inherited || spec.err.target != StreamTarget::console) return;
  spec.err.target = console.terminal ? StreamTarget::terminal : StreamTarget::passed;
  if (console.one && spec.out.target == StreamTarget::console) {
    spec.out.target = StreamTarget::with_err;
  }
}

// torchrun's name for the directory. Rounds that only change the membership do not count as
// restarts, so the same restart count can occur again. The round in the name keeps such an attempt
// from overwriting logs.
// If workers are restarted alone, a round has several restart counts.
std::string attempt_name(const link::Sealed& sealed) {
  const auto restarts = static_cast<std::uint32_t>(sealed.restart_count);
  const std::uint32_t rounds = sealed.restarts_workers ? 1 : restarts + 1;
  if (sealed.round.value <= rounds) return fmt::format("attempt_{}", restarts);
  return fmt::format("attempt_{}_round_{}", restarts, sealed.round.value);
}

}  // namespace

std::string expand_macros(const std::string& argument, LocalRank local_rank) {
  return substitute(argument, {{"local_rank", std::to_string(local_rank.value)}});
}

std::string line_prefix(const LogOptions& logs, const std::string& role, const std::string& host,
                        LocalRank local_rank, Rank rank) {
  if (!logs.prefix_template) return fmt::format("[{}{}]:", role, local_rank.value);
  return substitute(*logs.prefix_template, {{"role_name", role},
                                            {"local_rank", std::to_string(local_rank.value)},
                                            {"rank", std::to_string(rank.value)},
                                            {"hostname", host}});
}

std::optional<std::string> threads_note(const Config& config, const Environment& environment) {
  if (config.local_world_size == 1 ||
      find_variable(environment, contract::omp_num_threads) != nullptr) {
    return std::nullopt;
  }
  return "OMP_NUM_THREADS=1 is set for each worker to avoid overloading the CPUs; set it yourself "
         "for best performance";
}

std::vector<WorkerSpec> make_plan(const Config& config, const link::Sealed& sealed,
                                  const ResolvedProgram& program, const NodeFacts& facts) {
  const auto attempt = attempt_name(sealed);
  const auto attempt_directory = fmt::format("{}/{}", facts.run_directory, attempt);
  std::vector<WorkerSpec> specs;
  for (int local = 0; local < config.local_world_size; ++local) {
    WorkerSpec spec;
    spec.local_rank = LocalRank{local};
    spec.rank = Rank{sealed.base_rank.value + local};
    if (!facts.cpus.empty()) spec.cpus = facts.cpus.at(static_cast<std::size_t>(local));
    spec.argv = program.argv;
    if (config.local_rank_flag) {
      spec.argv.push_back(fmt::format("--{}={}", *config.local_rank_flag, local));
    }
    for (const auto& argument : config.program.arguments) {
      spec.argv.push_back(expand_macros(argument, spec.local_rank));
    }
    if (!facts.run_directory.empty()) {
      spec.log_directory = fmt::format("{}/{}", attempt_directory, local);
      spec.error_file = spec.log_directory + "/error.json";
    } else if (!facts.error_directory.empty()) {
      // No directory per worker: creating and removing many of them would dominate the launch time.
      spec.error_file = fmt::format("{}/{}_{}_error.json", facts.error_directory, attempt, local);
    }
    const auto file = [&](const std::string& directory, const char* name) {
      return facts.run_directory.empty() ? std::string() : fmt::format("{}/{}", directory, name);
    };
    const auto& logs = config.logs;
    const auto redirect = logs.redirects.of(local);
    const auto tee = logs.tee.of(local);
    spec.out = stream_plan(
        config, local,
        {redirect.out, tee.out, StreamTarget::nowhere, file(spec.log_directory, "stdout.log"),
         logs.duplicate_out, file(attempt_directory, "filtered_stdout.log")});
    spec.err = stream_plan(
        config, local,
        {redirect.err, tee.err, StreamTarget::kept, file(spec.log_directory, "stderr.log"),
         logs.duplicate_err, file(attempt_directory, "filtered_stderr.log")});
    pass_stderr_through(config, facts.console, spec);
    spec.prefix = line_prefix(config.logs, config.role, facts.host, spec.local_rank, spec.rank);
    spec.variables = variables_of(config, sealed, facts, local);
    set(spec.variables, contract::error_file, spec.error_file);
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace cpprun
