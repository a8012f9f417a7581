// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/preparation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "launcher/output/io/log_dir.h"
#include "launcher/output/io/output_streams.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/io/host.h"
#include "proto/bounds.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/random_bytes.h"

namespace cpprun::io {

namespace {

void report_error(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

void leave_report(const RunInputs& inputs, const Refusal& refusal) {
  if (!inputs.output_files.keeps_report()) return;
  auto facts = facts_before_the_start(inputs);
  facts.running = false;
  facts.ended = facts.started;
  facts.exit_code = refusal.code;
  facts.reason = refusal.reason;
  const auto left = inputs.output_files.leave_report(report_json(facts), "." + inputs.host);
  if (!left)
    report_error(ConsoleMessages{inputs.style}.message(LogLevel::error, left.error().reason));
}

}  // namespace

ReportFacts facts_before_the_start(const RunInputs& inputs) {
  ReportFacts facts{.job = inputs.config.job, .host = inputs.host};
  facts.entrypoint = inputs.config.program.script;
  facts.program = {inputs.config.program.script};
  facts.running = true;
  facts.pid = ::getpid();
  facts.started = wall_now();
  return facts;
}

int refuse(const RunInputs& inputs, const Refusal& refusal) {
  leave_report(inputs, refusal);
  report_error(ConsoleMessages{inputs.style}.message(LogLevel::error, refusal.reason));
  return refusal.code;
}

int refuse(CliDiagnostics diagnostics) {
  RunInputs inputs;
  inputs.host = machine_name();
  const auto add = [&](const Error& wrong) { diagnostics.diagnostics.push_back(wrong.reason); };
  if (auto files = OutputFiles::open(diagnostics.report_file, "", *inputs.side)) {
    inputs.output_files = std::move(*files);
    // An existing report is from an earlier run. A write error is reported below.
    (void)inputs.output_files.announce_report(report_json(facts_before_the_start(inputs)));
  } else {
    add(files.error());
  }
  const auto events = OutputFiles::try_events(diagnostics.events_file, *inputs.side);
  if (!events) add(events.error());
  const auto reason = fmt::format("{}", fmt::join(diagnostics.diagnostics, "; "));
  leave_report(inputs, {.reason = reason, .code = usage_exit_code});
  report_error(to_text(diagnostics));
  return usage_exit_code;
}

namespace {

constexpr int node_token_bytes = 8;

std::optional<Refusal> misuse(const Error& error) {
  return Refusal{.reason = error.reason, .code = usage_exit_code};
}

std::optional<Refusal> find_program(RunInputs& inputs) {
  auto program =
      resolve_program(inputs.config.program, inputs.environment, probe_file, own_paths());
  if (!program) return misuse(program.error());
  if (!program->note.empty()) inputs.config.notes.push_back(program->note);
  inputs.program = std::move(*program);
  if (inputs.program.interpreter.empty() && !inputs.config.warm_modules.empty()) {
    inputs.config.warm_modules.clear();
    inputs.config.notes.push_back(fmt::format("note: --warm has no effect: {} is not run by Python",
                                              inputs.program.entrypoint));
  }
  return std::nullopt;
}

std::optional<Refusal> bind_to_processors(RunInputs& inputs) {
  Config& config = inputs.config;
  if (!config.numa_binding) return std::nullopt;
  auto bound = resolve_binding(*config.numa_binding, read_topology(inputs.environment, own_cpus()),
                               device_count(inputs.environment), config.local_world_size);
  if (!bound) return misuse(bound.error());
  inputs.cpus = std::move(bound->cpus);
  std::move(bound->notes.begin(), bound->notes.end(), std::back_inserter(config.notes));
  return std::nullopt;
}

std::optional<Refusal> find_notice(RunInputs& inputs) {
  const auto& text = inputs.config.preemption_notice;
  if (text.empty()) return std::nullopt;
  auto notice = preemption_notice(text, inputs.environment);
  if (!notice) return misuse(notice.error());
  inputs.notice = *std::move(notice);
  return std::nullopt;
}

// Our address on the route to the master, if known without a name lookup.
std::string way_to_master(const Endpoint& endpoint) {
  const auto literal = literal_address(endpoint.host);
  if (!literal) return {};
  return local_address_towards(*literal, endpoint.port).value_or(std::string{});
}

std::optional<Refusal> find_interfaces(RunInputs& inputs) {
  Config& config = inputs.config;
  auto interfaces = network_interfaces();
  if (!interfaces) return Refusal{interfaces.error().reason};
  const auto named = check_users_interfaces(*interfaces, config.nodes_max == 1, inputs.environment,
                                            way_to_master(config.endpoint));
  if (!named) return misuse(named.error());
  if (config.local_addr) {
    auto resolved =
        resolve_local_address(*config.local_addr, addresses_of(*config.local_addr), *interfaces);
    config.local_addr = std::move(resolved.address);
    if (!resolved.note.empty()) config.notes.push_back(std::move(resolved.note));
  }
  inputs.interfaces = std::move(*interfaces);
  return std::nullopt;
}

}  // namespace

CommandLine command_line(std::vector<std::string> words, const Environment& environment) {
  return {.words = std::move(words),
          .environment = environment,
          .count_cpus = cpu_count,
          .count_devices = [&environment] { return device_count(environment); },
          .random_id = random_token(node_token_bytes),
          .version = "",
          .read_file =
              [](const std::string& path) {
                return read_text_file(path, bounds::config_file_bytes_max);
              },
          .probe_file = probe_file};
}

RunInputs begin_inputs(Config config, Environment own) {
  RunInputs inputs{.config = std::move(config), .environment = std::move(own)};
  const Environment& environment = inputs.environment;
  inputs.host = machine_name();
  inputs.style = console_style(::isatty(STDERR_FILENO) == 1, environment, inputs.config.logs);
  inputs.utc_offset_seconds = utc_offset_seconds();
  inputs.node_token = random_token(node_token_bytes);
  inputs.agent_number = std::max(1U, static_cast<std::uint32_t>(random_word()));
  inputs.error_directories = private_directories(inputs.config, environment);
  inputs.job_processes =
      make_job_processes(inputs.node_token, static_cast<std::uint32_t>(random_word()));
  return inputs;
}

std::optional<CliDiagnostics> open_output_files(RunInputs& inputs) {
  const LogOptions& logs = inputs.config.logs;
  auto files = OutputFiles::open(logs.report_file, logs.events_file, *inputs.side);
  if (!files) {
    // Report other known errors together with this one.
    CliDiagnostics diagnostics{
        .diagnostics = {}, .report_file = logs.report_file, .events_file = logs.events_file};
    const auto program = resolve_program(inputs.config.program, inputs.environment, probe_file);
    if (!program) diagnostics.diagnostics.push_back(program.error().reason);
    return diagnostics;
  }
  if (files->keeps_report()) {
    const auto announced = files->announce_report(report_json(facts_before_the_start(inputs)));
    // No paths here: if the report cannot be written now, do not retry it for the refusal.
    if (!announced) return CliDiagnostics{.diagnostics = {"--report: " + announced.error().reason}};
  }
  inputs.output_files = std::move(*files);
  return std::nullopt;
}

void tell_missing_gpus(RunInputs& inputs) {
  // On machines without the driver, skip the scan of the whole PCI bus.
  if (::access("/proc/driver/nvidia/gpus", R_OK) != 0) return;
  if (auto missing = missing_gpus(count_gpus(), inputs.environment)) {
    inputs.config.notes.push_back(*std::move(missing));
  }
}

std::optional<Refusal> examine_host(RunInputs& inputs) {
  if (auto refusal = find_program(inputs)) return refusal;
  if (auto refusal = bind_to_processors(inputs)) return refusal;
  if (auto refusal = find_notice(inputs)) return refusal;
  return find_interfaces(inputs);
}

AgentFacts facts_of(const RunInputs& inputs, std::string run_directory,
                    std::string error_directory) {
  const ConsoleFacts console{.terminal = ::isatty(STDERR_FILENO) == 1,
                             .one = same_file(STDOUT_FILENO, STDERR_FILENO)};
  return {.host = inputs.host,
          .pid = ::getpid(),
          .agent = inputs.agent_number,
          .program = inputs.program,
          .node = {.environment = inputs.environment,
                   .host = inputs.host,
                   .node_token = inputs.node_token,
                   .master_host = inputs.config.endpoint.host,
                   .local_store_port = 0,
                   .sockets = {},
                   .cpus = inputs.cpus,
                   .run_directory = std::move(run_directory),
                   .error_directory = std::move(error_directory),
                   .console = console},
          .interfaces = inputs.interfaces};
}

void raise_own_limits(RunInputs& inputs) {
  inputs.open_files = raise_open_files();
  // A single-node job has no lease to keep, and cannot delay any other node's.
  if (inputs.config.nodes_max == 1) return;
  inputs.niceness = ::getpriority(PRIO_PROCESS, 0);
  lock_memory_and_priority();
}

}  // namespace cpprun::io
