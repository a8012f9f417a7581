// SPDX-License-Identifier: BSD-3-Clause
// cpprun: reads the command line, inspects the machine, and runs the job until it ends.

#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/io/agent_upgrade.h"
#include "launcher/agent/io/local_cpprund.h"
#include "launcher/agent/io/preparation.h"
#include "launcher/agent/io/runtime.h"
#include "launcher/cli/cli.h"
#include "launcher/fanout/io/fan_out.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/preview/io/rehearsal.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/text.h"
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

int run(Config config, Environment environment, io::Origin origin) {
  open_missing_stdout();
  auto secrets = secrets_of(config, environment);
  io::RunInputs inputs =
      io::begin_inputs(std::move(config), without_secret_path(std::move(environment)));
  inputs.origin = std::move(origin);
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

// The inputs of a run that another program in this process has begun; an error if it cannot be
// continued from that state.
Result<io::RunInputs> continued_inputs(Config config, Environment environment, io::Origin origin,
                                       const io::UpgradeState& before) {
  io::RunInputs inputs =
      io::begin_inputs(std::move(config), without_secret_path(std::move(environment)));
  inputs.origin = std::move(origin);
  if (!before.secrets.empty()) {
    auto secrets = parse_secrets(before.secrets, make_key_memory);
    if (!secrets) return tl::unexpected<Error>(secrets.error());
    inputs.secrets = *std::move(secrets);
  }
  if (auto continued = io::continue_inputs(inputs, before); !continued) {
    return tl::unexpected<Error>(continued.error());
  }
  if (auto refusal = io::examine_host(inputs)) return failure(refusal->reason);
  return inputs;
}

// Another program in this process has run the job until now.
int resume(Config config, Environment environment, io::Origin origin, io::UpgradeState before) {
  open_missing_stdout();
  auto inputs =
      continued_inputs(std::move(config), std::move(environment), std::move(origin), before);
  if (!inputs) return io::refuse(io::RunInputs{}, {inputs.error().reason});
  inputs->side->adopt(before.helpers);
  inputs->output_files = io::OutputFiles::adopt(before.output_files, *inputs->side);
  auto watchdog = io::Watchdog::adopt(inputs->job_processes, before.watchdog);
  io::raise_own_limits(*inputs);
  inputs->open_files = before.open_files;
  inputs->niceness = before.niceness;
  return io::Runtime{*std::move(inputs), std::move(watchdog), std::move(before)}.run();
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

// `files`: those that another program in this process has read, as they were then. The others are
// added.
CliOutcome read_own_line(std::vector<std::string> words, const Environment& environment,
                         std::map<std::string, std::string>& files) {
  CommandLine line = io::command_line(std::move(words), environment);
  line.version = version_text();
  line.read_file = [read = line.read_file, &files](const std::string& path) -> Result<std::string> {
    if (const auto found = files.find(path); found != files.end()) return found->second;
    auto text = read(path);
    if (text) files[path] = *text;
    return text;
  };
  return read_command_line(line);
}

int cannot_continue(const std::string& why) {
  std::fputs(("cpprun: error: " + why + "\n").c_str(), stderr);
  return 1;
}

// Whether this program can continue a run from that state. Starts nothing.
int check_upgrade(int argc, char** argv, Environment environment) {
  const auto descriptor = exact_number<int>(argv[2]);
  const auto before = io::read_upgrade_state(descriptor.value_or(-1));
  if (!before) return cannot_continue("the state of the run " + before.error().reason);
  io::Origin origin{.version = std::string(version_text()),
                    .words = {argv + 3, argv + argc},
                    .environment = environment,
                    .config_files = before->config_files};
  CliOutcome outcome = read_own_line(origin.words, environment, origin.config_files);
  if (const auto* diagnostics = std::get_if<CliDiagnostics>(&outcome)) {
    std::fputs(to_text(*diagnostics).c_str(), stderr);  // the report file is that of the run
    return usage_exit_code;
  }
  auto* const config = std::get_if<Config>(&outcome);
  if (config == nullptr) return cannot_continue("the command line is not that of an agent");
  auto inputs =
      continued_inputs(std::move(*config), std::move(environment), std::move(origin), *before);
  if (!inputs) return cannot_continue(inputs.error().reason);
  if (const auto tried = io::try_to_continue(*inputs, *before); !tried) {
    return cannot_continue(tried.error().reason);
  }
  (void)print_or_exit("cpprun", std::string(io::can_continue_mark) + std::string(version_text()));
  return 0;
}

int run_line(int argc, char** argv) {
  Environment environment = environment_of(environ);
  auto before = io::take_upgrade_state(environment);
  ::unsetenv(io::upgrade_state_variable);
  if (before && !*before) {
    return cannot_continue("the state of the program before " + before->error().reason);
  }
  if (argc > 2 && std::string_view(argv[1]) == io::check_upgrade_flag) {
    return check_upgrade(argc, argv, std::move(environment));
  }
  if (is_host_side(argc, argv)) {
    return io::run_host_side(std::move(environment), {.removes_itself = argc > 2});
  }
  io::Origin origin{.version = std::string(version_text()),
                    .words = {argv + 1, argv + argc},
                    .environment = environment};
  if (before) origin.config_files = (*before)->config_files;
  CliOutcome outcome = read_own_line(origin.words, environment, origin.config_files);
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
  Config config = std::get<Config>(std::move(outcome));
  if (before) {
    return resume(std::move(config), std::move(environment), std::move(origin),
                  **std::move(before));
  }
  return run(std::move(config), std::move(environment), std::move(origin));
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_continued = std::getenv(io::upgrade_state_variable) != nullptr;
  return run_program(
      "cpprun", [&] { return run_line(argc, argv); }, is_continued);
}
