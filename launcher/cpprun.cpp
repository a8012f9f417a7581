// SPDX-License-Identifier: BSD-3-Clause
// cpprun: reads the command line, looks at the machine, and runs the job to its end.

#include <sys/resource.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <variant>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/io/runtime.h"
#include "launcher/cli/cli.h"
#include "launcher/io/wall_clock.h"
#include "launcher/plan/io/addresses.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/io/topology.h"
#include "launcher/plan/numa.h"
#include "launcher/plan/program.h"
#include "launcher/report/console_messages.h"
#include "launcher/report/io/terminal.h"
#include "launcher/report/report.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/bounds.h"
#include "proto/version.h"
#include "rendezvous/io/standard_streams.h"
#include "rendezvous/io/steadiness.h"

extern char** environ;

namespace {

using namespace cpprun;

constexpr int node_token_bytes = 8;

Result<std::string> read_config_file(const std::string& path) {
  return io::read_text_file(path, bounds::config_file_bytes_max);
}

int complain(const std::string& text, int code) {
  std::fputs(text.c_str(), stderr);
  return code;
}

// Binds the workers to processors where that was asked for, and says which.
Result<void> bind(io::RunInputs& inputs) {
  Config& config = inputs.config;
  if (!config.numa_binding) return {};
  auto bound = settle_binding(*config.numa_binding,
                              io::read_topology(inputs.environment, io::own_cpus()),
                              io::device_count(inputs.environment), config.local_world_size);
  if (!bound) return tl::unexpected(bound.error());
  inputs.cpus = std::move(bound->cpus);
  std::move(bound->notes.begin(), bound->notes.end(), std::back_inserter(config.notes));
  return {};
}

// From which of our addresses the master is reached, as far as nobody has to be asked for it.
std::string way_to_master(const Endpoint& endpoint) {
  const auto literal = io::literal_address(endpoint.host);
  if (!literal) return {};
  return io::local_address_towards(*literal, endpoint.port).value_or(std::string{});
}

// Makes --local-addr the literal address that one of our interfaces carries.
void settle_local_address(Config& config, const std::vector<NetworkInterface>& interfaces) {
  if (!config.local_addr) return;
  auto settled = cpprun::settle_local_address(*config.local_addr,
                                              io::addresses_of(*config.local_addr), interfaces);
  config.local_addr = std::move(settled.address);
  if (!settled.note.empty()) config.notes.push_back(std::move(settled.note));
}

// What the report's file says before there is anything to say.
ReportFacts facts_before_the_start(const io::RunInputs& inputs) {
  ReportFacts facts{.job = inputs.config.job, .host = inputs.host};
  facts.entrypoint = inputs.config.program.script;
  facts.program = {inputs.config.program.script};
  facts.running = true;
  facts.pid = ::getpid();
  facts.started = io::wall_now();
  return facts;
}

// Says that the job runs now, so that nobody takes an earlier report for its own.
std::optional<int> start_report(io::RunInputs& inputs) {
  const auto said =
      inputs.output_files.announce_report(report_json(facts_before_the_start(inputs)));
  if (said) return std::nullopt;
  const auto reason = "--report: " + said.error().reason;
  return complain(ConsoleMessages{inputs.style}.error(reason), usage_exit_code);
}

void report_refusal(const io::RunInputs& inputs, const std::string& reason, int code) {
  if (!inputs.output_files.keeps_report()) return;
  auto facts = facts_before_the_start(inputs);
  facts.running = false;
  facts.ended = facts.started;
  facts.exit_code = code;
  facts.reason = reason;
  const auto left = inputs.output_files.leave_report(report_json(facts), "." + inputs.host);
  if (!left) complain(ConsoleMessages{inputs.style}.error(left.error().reason), code);
}

// The job does not come to its start: in words, and in its report.
int refuse(const io::RunInputs& inputs, const std::string& reason, int code) {
  report_refusal(inputs, reason, code);
  return complain(ConsoleMessages{inputs.style}.error(reason), code);
}

// The same where not even the flags are in order.
int refuse(const CliMistakes& mistakes) {
  io::RunInputs inputs;
  inputs.host = io::host_name();
  if (!mistakes.report_file.empty()) {
    auto files = io::OutputFiles::open(mistakes.report_file, "", *inputs.side);
    if (files) {
      inputs.output_files = std::move(*files);
      // Whatever is there is an earlier run's. What cannot be written now is told below.
      (void)inputs.output_files.announce_report(report_json(facts_before_the_start(inputs)));
    }
  }
  report_refusal(inputs, fmt::format("{}", fmt::join(mistakes.mistakes, "; ")), usage_exit_code);
  return complain(to_text(mistakes), usage_exit_code);
}

// What was found out of the machine; nothing where the job cannot be had on it, which was said.
std::optional<int> look_around(io::RunInputs& inputs) {
  auto program = resolve_program(inputs.config.program, inputs.environment, io::probe_file);
  if (!program) return refuse(inputs, program.error().reason, usage_exit_code);
  if (!program->note.empty()) inputs.config.notes.push_back(program->note);
  const auto bound = bind(inputs);
  if (!bound) return refuse(inputs, bound.error().reason, usage_exit_code);
  auto interfaces = io::network_interfaces();
  if (!interfaces) return refuse(inputs, interfaces.error().reason, 1);
  const bool alone = inputs.config.nodes_max == 1;
  const auto named = check_users_interfaces(*interfaces, alone, inputs.environment,
                                            way_to_master(inputs.config.endpoint));
  if (!named) return refuse(inputs, named.error().reason, usage_exit_code);
  settle_local_address(inputs.config, *interfaces);
  inputs.program = std::move(*program);
  inputs.interfaces = std::move(*interfaces);
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  survive_failed_writes();
  const Environment environment = environment_of(environ);
  CommandLine line{.words = {argv + 1, argv + argc},
                   .environment = environment,
                   .count_cpus = io::cpu_count,
                   .count_devices = [&] { return io::device_count(environment); },
                   .random_id = io::random_token(node_token_bytes),
                   .version = std::string(version_text()),
                   .read_file = read_config_file,
                   .probe_file = io::probe_file};
  const CliOutcome outcome = read_command_line(line);
  if (const auto* text = std::get_if<CliText>(&outcome)) {
    std::fputs(text->text.c_str(), stdout);
    return 0;
  }
  if (const auto* mistakes = std::get_if<CliMistakes>(&outcome)) {
    return refuse(*mistakes);
  }
  io::RunInputs inputs{.config = std::get<Config>(outcome), .environment = environment};
  inputs.style = io::console_style(environment, inputs.config.logs);
  const ConsoleMessages console_messages{inputs.style};

  auto output_files = io::OutputFiles::open(inputs.config.logs.report_file,
                                            inputs.config.logs.events_file, *inputs.side);
  if (!output_files)
    return complain(console_messages.error(output_files.error().reason), usage_exit_code);
  inputs.output_files = std::move(*output_files);
  inputs.host = io::host_name();
  if (const auto code = start_report(inputs)) return *code;
  if (const auto code = look_around(inputs)) return *code;
  inputs.node_token = io::random_token(node_token_bytes);
  inputs.utc_offset_seconds = io::utc_offset_seconds();

  inputs.kin = io::make_kin(inputs.node_token, std::random_device{}());
  auto watchdog = io::Watchdog::start(inputs.kin);
  if (!watchdog) return refuse(inputs, watchdog.error().reason, 1);
  inputs.open_files = io::raise_open_files();
  // A machine alone has no lease to keep, and nobody else's is late with it.
  if (inputs.config.nodes_max > 1) {
    inputs.niceness = ::getpriority(PRIO_PROCESS, 0);
    hold_steady();
  }
  try {
    return io::Runtime{std::move(inputs), std::move(*watchdog)}.run();
  } catch (const std::system_error& refused) {
    // The event loop cannot be had: its parts ask for their descriptors as they are made.
    return complain(console_messages.error("cannot start: " + refused_text(refused.code())), 1);
  }
}
