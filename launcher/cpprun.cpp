// SPDX-License-Identifier: BSD-3-Clause
// cpprun: reads the command line, inspects the machine, and runs the job until it ends.

#include <sys/prctl.h>

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/io/local_cpprund.h"
#include "launcher/agent/io/preparation.h"
#include "launcher/agent/io/runtime.h"
#include "launcher/cli/cli.h"
#include "launcher/fanout/io/fan_out.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/preview/io/rehearsal.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/version.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/secret_file.h"

extern char** environ;

namespace {

using namespace cpprun;

// The job's secrets. Fails if they are invalid, or missing where the job requires one.
Result<Secrets> secrets_of(Config& config, const Environment& environment) {
  if (!uses_secret(config)) return Secrets{};
  auto secrets = find_secrets(config.secret_file, environment);
  const auto missing = missing_secret(config);
  if (secrets && secrets->empty() && missing) return failure(*missing);
  if (secrets && secrets->empty() && config.nodes_max > 1 && !config.insecure) {
    const std::string why = secret_out_of_reach(config.secret_file, environment);
    if (!why.empty()) config.notes.push_back(why);
  }
  return secrets;
}

int run(Config config, Environment environment) {
  open_missing_stdout();
  auto secrets = secrets_of(config, environment);
  io::RunInputs inputs =
      io::begin_inputs(std::move(config), without_secret_path(std::move(environment)));
  if (auto diagnostics = io::open_output_files(inputs)) return io::refuse(std::move(*diagnostics));
  if (!secrets) return io::refuse(inputs, {secrets.error().reason, usage_exit_code});
  inputs.config.store = resolve_store(inputs.config, !secrets->empty());
  inputs.secrets = *std::move(secrets);
  io::tell_missing_gpus(inputs);
  if (const auto refusal = io::examine_host(inputs)) return io::refuse(inputs, *refusal);
  std::optional<io::LocalCpprund> daemon;
  if (inputs.config.etcd) {
    auto started = io::LocalCpprund::start(inputs);
    if (!started) return io::refuse(inputs, {started.error().reason});
    daemon.emplace(*std::move(started));
    inputs.config.endpoint = daemon->place();
    inputs.config.places = {daemon->place()};
    inputs.rendezvous_pid = daemon->pid();
  }
  // Fork the watchdog before the limits are raised, and while this process is still small.
  auto watchdog = io::Watchdog::start(inputs.job_processes, inputs.error_directories);
  if (!watchdog) return io::refuse(inputs, {watchdog.error().reason});
  io::raise_own_limits(inputs);
  const ConsoleMessages messages{inputs.style};
  try {
    return io::Runtime{std::move(inputs), std::move(*watchdog)}.run();
  } catch (const std::system_error& refused) {
    // The event loop cannot be created: its parts allocate descriptors in their constructors.
    std::fputs(
        messages.message(LogLevel::error, "cannot start: " + refused_text(refused.code())).c_str(),
        stderr);
    return 1;
  }
}

// The same for --dry-run, which starts nothing.
int rehearse(CliDryRun job, Environment environment) {
  auto secrets = secrets_of(job.config, environment);
  io::RunInputs inputs =
      io::begin_inputs(std::move(job.config), without_secret_path(std::move(environment)));
  if (!secrets) return io::refuse(inputs, {secrets.error().reason, usage_exit_code});
  inputs.config.store = resolve_store(inputs.config, !secrets->empty());
  inputs.secrets = *std::move(secrets);
  return io::rehearse(std::move(inputs), job.as_json);
}

// Adds to the request what only this process knows; returns an error if that fails.
std::optional<io::Refusal> complete(fanout::Request& request, const Config& config,
                                    const Environment& environment) {
  if (const auto lack = io::lacks_open_files(request.wanted.members.size())) {
    return io::Refusal{*lack};
  }
  const auto secrets = find_secrets(config.secret_file, environment);
  if (!secrets) return io::Refusal{secrets.error().reason, usage_exit_code};
  if (const auto missing = missing_secret(config); secrets->empty() && missing) {
    return io::Refusal{*missing, usage_exit_code};
  }
  if (!secrets->empty()) {
    (void)::prctl(PR_SET_DUMPABLE, 0);
    request.job.flags.emplace_back("--secret-file=-");
  }
  for (const auto& secret : *secrets) request.job.secrets += secret_line(secret) + "\n";
  request.job.directory = io::working_directory();
  return std::nullopt;
}

// Runs the console of --hosts. The agents on the hosts do all other work.
int run_fan_out(CliFanOut job, const Environment& environment) {
  const auto inputs = io::begin_inputs(job.config, environment);
  if (const auto refusal = complete(job.request, job.config, environment)) {
    return io::refuse(inputs, *refusal);
  }
  const ConsoleMessages messages{inputs.style};
  return io::run_console(std::move(job.request), environment,
                         [&](const std::string& sentence, bool is_error) {
                           const auto level = is_error ? LogLevel::warning : LogLevel::info;
                           std::fputs(messages.message(level, sentence).c_str(), stderr);
                         });
}

int rehearse_fan_out(CliDryRun job, const Environment& environment) {
  const auto inputs = io::begin_inputs(job.config, environment);
  if (const auto refusal = complete(*job.request, job.config, environment)) {
    return io::refuse(inputs, *refusal);
  }
  return io::rehearse_on_hosts(*std::move(job.request), inputs, job.as_json);
}

// Whether a console's remote shell started this process.
bool is_host_side(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == "--fanout-child";
}

CliOutcome read_own_line(std::vector<std::string> words, const Environment& environment) {
  CommandLine line = io::command_line(std::move(words), environment);
  line.version = version_text();
  return read_command_line(line);
}

int run_line(int argc, char** argv) {
  Environment environment = environment_of(environ);
  if (is_host_side(argc, argv)) {
    return io::run_host_side(std::move(environment), {.removes_itself = argc > 2});
  }
  CliOutcome outcome = read_own_line({argv + 1, argv + argc}, environment);
  if (const auto* text = std::get_if<CliText>(&outcome)) {
    (void)print_or_exit("cpprun", text->text);
    return 0;
  }
  if (const auto* diagnostics = std::get_if<CliDiagnostics>(&outcome))
    return io::refuse(*diagnostics);
  if (auto* job = std::get_if<CliFanOut>(&outcome)) {
    return run_fan_out(std::move(*job), environment);
  }
  if (auto* job = std::get_if<CliDryRun>(&outcome)) {
    return job->request ? rehearse_fan_out(std::move(*job), environment)
                        : rehearse(std::move(*job), std::move(environment));
  }
  return run(std::get<Config>(std::move(outcome)), std::move(environment));
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("cpprun", [&] { return run_line(argc, argv); });
}
