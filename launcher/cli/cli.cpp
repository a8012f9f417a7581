// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "launcher/cli/config_file.h"
#include "launcher/cli/declaration.h"
#include "launcher/cli/flags.h"
#include "launcher/cli/help.h"
#include "launcher/cli/settings.h"
#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/host_list.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/text.h"
#include "proto/worker_contract.h"
#include "rendezvous/command_pages.h"
#include "rendezvous/logging.h"

namespace cpprun {

namespace {

constexpr std::size_t word_bytes_shown_max = 100;
constexpr std::size_t notes_max = 3;  // about script arguments

// --help and similar flags win over any error.
std::optional<std::string> asked_text(const TypedWords& words, const Declaration& declaration,
                                      const CommandLine& line) {
  if (words.last("help") != nullptr) {
    return help_text(declaration.program(), words.script.value_or(""));
  }
  return requested_page(declaration.program(), words, line.version);
}

// The first of the flag's environment variables that is set and not empty.
const std::string* variable_of(const FlagFacts& flag, const Environment& environment,
                               const std::string*& value) {
  for (const auto& name : flag.variables) {
    value = find_variable(environment, name);
    if (value != nullptr && !value->empty()) return &name;
  }
  return nullptr;
}

void tell_environment(const TypedWords& words, const Environment& environment,
                      Declaration& declaration, Diagnostics& diagnostics) {
  int place = 0;
  for (const auto& flag : declaration.facts()) {
    const std::string* value = nullptr;
    if (const auto* name = variable_of(flag, environment, value)) {
      if (flag.takes_value() || *value == "1" || *value == "0") {
        declaration.tell(flag, *value, SettingOrigin::environment, *name);
      } else if (words.last(flag.name) == nullptr) {
        diagnostics.add(place, fmt::format("{}={} is neither 1 (on) nor 0 (off)", *name, *value));
      }
    }
    ++place;
  }
}

// Reads the file given by --config, or else by CPPRUN_CONFIG.
void tell_file(const TypedWords& words, const CommandLine& line, Declaration& declaration,
               Diagnostics& diagnostics) {
  const auto* flag = declaration.find("config");
  const auto* typed = words.last(flag->name);
  const std::string* path = typed == nullptr ? nullptr : &typed->value;
  const auto* name = typed == nullptr ? variable_of(*flag, line.environment, path) : nullptr;
  if ((typed == nullptr && name == nullptr) || path->empty()) return;
  const auto text = line.read_file(*path);
  if (text) return tell_config_file(*path, *text, declaration, diagnostics);
  diagnostics.add(Diagnostics::before_flags,
                  fmt::format("{}={} cannot be read: {}\n  hint: give the path of a text file",
                              typed == nullptr ? *name : "--config", *path, text.error().reason));
}

void tell_words(const TypedWords& words, Declaration& declaration, Diagnostics& diagnostics) {
  for (const auto& error : words.diagnostics) diagnostics.add(Diagnostics::before_flags, error);
  for (const auto& typed : words.typed) {
    declaration.tell(*typed.flag, typed.value, SettingOrigin::typed, "--" + typed.flag->name);
  }
}

// Adds errors about the script.
void check_script(const CommandLine& line, const TypedWords& words, const Program& program,
                  Diagnostics& diagnostics) {
  if (const auto* flag = program.script.empty() ? words.swallower() : nullptr) {
    diagnostics.add(
        Diagnostics::after_flags,
        fmt::format(
            "no script given: {} took \"{}\" as its value\n  hint: write {}={} and then the "
            "script",
            flag->spelled, plain_line(flag->value), flag->spelled, flag->flag->value));
  } else if (program.script.empty()) {
    diagnostics.add(Diagnostics::after_flags,
                    "no script given\n  hint: add the script after the flags");
  } else if (!diagnostics.empty()) {
    const auto resolved = resolve_program(program, line.environment, line.probe_file);
    if (!resolved) diagnostics.add(Diagnostics::after_flags, resolved.error().reason);
  }
}

CommandLine without_random_id(CommandLine line) {
  line.random_id.clear();
  return line;
}

// Adds what the console needs besides the flags.
void complete(const Config& config, fanout::Request& request) {
  request.wanted.grace = config.grace;
  request.job.grace_milliseconds = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(config.grace).count());
  request.job.program = {config.program.script};
  request.job.program.insert(request.job.program.end(), config.program.arguments.begin(),
                             config.program.arguments.end());
}

}  // namespace

CliOutcome read_command_line(const CommandLine& line) {
  // Fast path for scripts that check the version at every start: does not declare the flags.
  if (line.words.size() == 1 && line.words.front() == "--version") {
    return CliText{fmt::format("cpprun {}\n", line.version)};
  }
  Flags flags;
  Declaration declaration(flags);
  auto words = read_words(declaration.program(), line.words);
  if (auto text = asked_text(words, declaration, line)) return CliText{std::move(*text)};

  // A later source overrides an earlier one.
  Diagnostics diagnostics;
  tell_file(words, line, declaration, diagnostics);
  tell_environment(words, line.environment, declaration, diagnostics);
  tell_words(words, declaration, diagnostics);
  declaration.resolve(diagnostics);
  const auto dropped = drop_contradicted(flags);
  std::vector<std::string> taken;
  // With --hosts, the agents get all settings from their console.
  const bool is_console = flags.hosts.given || flags.hostfile.given;
  if (const auto facts = scheduler_facts(line.environment, line.read_file); facts && !is_console) {
    taken = tell_scheduler(*facts, flags, line, declaration, diagnostics);
  }
  declaration.resolve(diagnostics);
  auto fan_out = fan_out_request(flags, declaration, line, diagnostics);
  const bool is_dry = is_on(flags.dry_run);
  if (is_on(flags.json) && !is_dry) {
    diagnostics.add(flags.json.place, flags.json.source + " has no effect without --dry-run");
  }
  auto config = config_of(flags, is_dry ? without_random_id(line) : line, diagnostics);
  config.notes.insert(config.notes.begin(), taken.begin(), taken.end());
  config.notes.insert(config.notes.begin(), dropped.begin(), dropped.end());
  config.program.script = words.script.value_or("");
  if (words.script) {
    const auto notes = notes_of_arguments(declaration.facts(), words);
    config.notes.insert(config.notes.end(), notes.begin(), notes.end());
  }
  config.program.arguments = std::move(words.arguments);
  if (!fan_out || config.program.script.empty()) {
    check_script(line, words, config.program, diagnostics);
  }
  if (!diagnostics.empty()) {
    // A dry run writes no files.
    if (is_dry) return CliDiagnostics{diagnostics.sentences()};
    return CliDiagnostics{diagnostics.sentences(), config.logs.report_file,
                          config.logs.events_file};
  }
  if (fan_out) complete(config, *fan_out);
  if (is_dry) return CliDryRun{std::move(config), std::move(fan_out), is_on(flags.json)};
  if (!fan_out) return config;
  return CliFanOut{std::move(config), std::move(*fan_out)};
}

std::string to_text(const CliDiagnostics& diagnostics) {
  std::string text;
  for (const auto& error : diagnostics.diagnostics) {
    text += fmt::format("cpprun: {}\n", with_level(LogLevel::error, error));
  }
  return text + "cpprun: nothing was started; cpprun --help all lists the flags\n";
}

std::vector<std::string> notes_of_arguments(const std::vector<FlagFacts>& flags,
                                            const TypedWords& words) {
  std::vector<std::string> notes;
  for (const auto& word : words.arguments) {
    if (!word.starts_with("--")) continue;
    const auto name = flag_name(std::string_view(word).substr(2, word.find('=') - 2));
    const auto flag = std::ranges::find(flags, name, &FlagFacts::name);
    if (flag == flags.end() || !flag->is_launchers_own) continue;
    const auto is_given = [&](const TypedFlag& each) { return each.flag->name == name; };
    if (std::ranges::any_of(words.typed, is_given)) continue;
    notes.push_back(fmt::format("{} comes after {}, so it is passed to the script",
                                plain_line(word, word_bytes_shown_max),
                                plain_line(*words.script, word_bytes_shown_max)));
  }
  if (notes.size() > notes_max) notes.resize(notes_max);
  return notes;
}

// --- the scheduler's facts -----------------------------------------------------------------------

namespace {

template <class T>
bool is_said(const Flag<T>& flag) {
  return flag.given && !flag.text.empty();
}

bool is_said_on(const Flag<bool>& flag) {
  return flag.given && flag.text != "false" && flag.text != "0";
}

// Host and port joined as --rdzv-endpoint takes them.
std::string endpoint_text(const std::string& host, const std::string& port) {
  const bool v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

class Teller {
 public:
  Teller(const SchedulerFacts& facts, const Flags& flags, const CommandLine& line,
         Declaration& declaration, Diagnostics& diagnostics)
      : facts_(facts),
        flags_(flags),
        line_(line),
        declaration_(declaration),
        diagnostics_(diagnostics) {}

  std::vector<std::string> tell() {
    const auto range = is_said(flags_.nnodes) ? node_range(flags_.nnodes.text) : NodeRange{};
    if (!range) return {};  // the error is reported elsewhere
    const bool typed = is_said(flags_.nnodes);
    const bool alone = !typed && meets_at_any_port();
    if (!alone && (!typed || range->highest > 1)) {
      notes_ = facts_.notes;
      for (const auto& error : facts_.diagnostics) {
        // The user has configured this node's position, so a problem in the scheduler's task layout
        // is only worth a note.
        is_placed() ? notes_.push_back(error) : report_error(error);
      }
    }
    nodes_ = typed ? range->highest : facts_.nodes && !alone ? facts_.nodes->value : 1;
    // A script may start one step per node of a job. A step does not know about the others.
    const bool is_a_part = typed && facts_.nodes && facts_.nodes->value < range->lowest;
    if (is_a_part) tell_of_a_part(facts_.nodes->value);
    if (nodes_ > 1) {
      if (!typed)
        tell("nnodes", fmt::format("{} nodes", nodes_), std::to_string(nodes_),
             facts_.nodes->source);
      if (!is_a_part) tell_place(typed);
      if (!is_a_part) tell_meeting();
    }
    if (facts_.job && !is_said(flags_.rdzv_id) && !is_a_part) {
      declare("rdzv-id", facts_.job->value, facts_.job->source);
      if (nodes_ > 1) taken_.push_back(fmt::format("job {}", facts_.job->value));
    }
    tell_workers();
    // Only one node prints this: there may be thousands.
    if (!taken_.empty() && (nodes_ == 1 || !facts_.node_rank || facts_.node_rank->value == 0)) {
      notes_.insert(notes_.begin(),
                    fmt::format("settings from {}: {}; use --no-scheduler to ignore them",
                                facts_.name, fmt::join(taken_, ", ")));
    }
    return std::move(notes_);
  }

 private:
  void report_error(std::string sentence) {
    diagnostics_.add(Diagnostics::before_flags, std::move(sentence));
  }

  void declare(std::string_view flag, std::string text, std::string source) {
    declaration_.tell(*declaration_.find(flag), std::move(text), SettingOrigin::scheduler,
                      std::move(source));
  }

  void tell(std::string_view flag, const std::string& words, std::string text,
            const std::string& source) {
    declare(flag, std::move(text), source);
    taken_.push_back(fmt::format("{} ({})", words, source));
  }

  // Whether the user gave the number of nodes, this node's rank, and the meeting place.
  bool is_placed() const {
    return is_said(flags_.nnodes) && is_said(flags_.node_rank) &&
           (is_said(flags_.master_addr) || is_said(flags_.rdzv_endpoint));
  }

  // The scheduler started cpprun on too few nodes. This is an error if nodes of other steps have no
  // way to find these.
  void tell_of_a_part(int started) {
    if (!facts_.diagnostics.empty()) return;  // the count is of tasks, not nodes
    const bool can_be_found =
        is_said(flags_.node_rank) || is_said(flags_.master_addr) || is_said(flags_.rdzv_endpoint);
    const auto fact = fmt::format("{}={}, but {} started cpprun on {} node{} ({})",
                                  flags_.nnodes.source, flags_.nnodes.text, facts_.name, started,
                                  started == 1 ? "" : "s", facts_.nodes->source);
    if (can_be_found) {
      notes_.push_back(fmt::format("warning: {}; the job waits for the other nodes", fact));
    } else {
      diagnostics_.add(
          flags_.nnodes.place,
          fmt::format("{}\n  hint: start cpprun on more nodes, or remove --nnodes", fact));
    }
  }

  // A port of 0 is torchrun's way of running a single node: other nodes could not know the port.
  bool meets_at_any_port() const {
    return is_said(flags_.rdzv_endpoint) ? flags_.rdzv_endpoint.text.ends_with(":0")
                                         : flags_.master_port.text == "0";
  }

  // Sets the rank of this node.
  void tell_place(bool typed) {
    const auto& rank = facts_.node_rank;
    if (!rank) return;
    if (typed && facts_.nodes && facts_.nodes->value > nodes_) {
      notes_.push_back(fmt::format("{}={}, but {} started cpprun on more nodes: {} ({})",
                                   flags_.nnodes.source, flags_.nnodes.text, facts_.name,
                                   facts_.nodes->value, facts_.nodes->source));
      return;
    }
    if (!is_said(flags_.node_rank)) {
      return tell("node-rank", fmt::format("node rank {}", rank->value),
                  std::to_string(rank->value), rank->source);
    }
    if (flags_.node_rank.text == std::to_string(rank->value)) return;
    notes_.push_back(fmt::format(
        "{}={}, but this is node {} according to {}; did the job script expand ${} to the same "
        "value for all nodes?\n  hint: remove the flag",
        flags_.node_rank.source, flags_.node_rank.text, rank->value, rank->source, rank->source));
  }

  // Sets where nodes meet.
  void tell_meeting() {
    if (is_said(flags_.master_addr) || is_said(flags_.rdzv_endpoint)) return;
    const auto* variable = find_variable(line_.environment, contract::master_addr);
    const bool by_variable = variable != nullptr && !variable->empty();
    if (!by_variable && !facts_.master) return report_error(no_master());
    const std::string host = by_variable ? *variable : facts_.master->value;
    const std::string source =
        by_variable ? std::string(contract::master_addr) : facts_.master->source;
    if (!by_variable && !facts_.doubt.empty()) notes_.push_back(facts_.doubt);
    const auto port = port_to_meet();
    const auto words = fmt::format("master {}", endpoint_text(host, port));
    // torchrun's two ways: the coordinator runs on the node of rank 0, or on the machine with that
    // name.
    const bool by_name = is_said(flags_.rdzv_backend) ? flags_.rdzv_backend.text == "c10d"
                                                      : !by_variable && !facts_.master_is_first;
    if (!by_name) {
      if (!flags_.master_port.given) declare("master-port", port, source);
      return tell("master-addr", words, host, source);
    }
    declare("rdzv-backend", "c10d", source);
    tell("rdzv-endpoint", words, endpoint_text(host, port), source);
  }

  std::string port_to_meet() const {
    if (is_said(flags_.master_port)) return flags_.master_port.text;
    const auto* variable = find_variable(line_.environment, contract::master_port);
    if (variable != nullptr && !variable->empty()) return *variable;
    constexpr int torchruns = 29500;
    return std::to_string(facts_.port ? facts_.port->value : torchruns);
  }

  std::string no_master() const {
    if (!facts_.no_master.empty()) {
      return facts_.no_master + ", or use --master-addr=HOST, the same on every node";
    }
    return fmt::format(
        "{} does not provide the host of node 0\n  hint: use --master-addr=HOST, the same on every "
        "node",
        facts_.name);
  }

  // Sets one worker per GPU of the task.
  void tell_workers() {
    if (is_said(flags_.nproc_per_node)) return;
    const bool visible =
        find_variable(line_.environment, contract::cuda_visible_devices) != nullptr;
    const bool said = facts_.gpus && !visible;
    const int gpus = said ? facts_.gpus->value : line_.count_devices();
    if (gpus < 1) return;
    tell("nproc-per-node", fmt::format("{} workers, one per GPU", gpus), std::to_string(gpus),
         said      ? facts_.gpus->source
         : visible ? std::string(contract::cuda_visible_devices)
                   : "this machine's devices");
  }

  const SchedulerFacts& facts_;
  const Flags& flags_;
  const CommandLine& line_;
  Declaration& declaration_;
  Diagnostics& diagnostics_;
  int nodes_ = 1;
  std::vector<std::string> taken_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> tell_scheduler(const SchedulerFacts& facts, const Flags& flags,
                                        const CommandLine& line, Declaration& declaration,
                                        Diagnostics& diagnostics) {
  if (is_said_on(flags.standalone) || is_said_on(flags.no_scheduler)) return {};
  return Teller(facts, flags, line, declaration, diagnostics).tell();
}

// --- hosts ---------------------------------------------------------------------------------------

namespace {

// Flags that are used by the console only, or passed to each agent in another form.
constexpr std::array<std::string_view, 16> kept_flags = {
    "ship",        "dry-run", "json",         "hosts",       "hostfile",      "remote-shell",
    "export",      "nnodes",  "master-addr",  "master-port", "rdzv-endpoint", "rdzv-backend",
    "secret-file", "config",  "no-scheduler", "rdzv-conf"};

class FanoutReader {
 public:
  FanoutReader(Flags& flags, const CommandLine& line, Diagnostics& diagnostics)
      : flags_(flags), line_(line), diagnostics_(diagnostics) {}

  fanout::Request read(const Declaration& declaration) {
    fanout::Request request;
    read_hosts(request.wanted);
    read_nodes(request);
    refuse_places();
    request.wanted.address = flags_.master_addr.value.value_or("");
    request.wanted.port = flags_.master_port.value.value_or(0);
    request.ship = is_on(flags_.ship);
    request.job.conf = flags_.rdzv_conf.value.value_or("");
    for (auto& [flag, text] : declaration.given()) {
      const bool is_kept = std::ranges::find(kept_flags, flag->name) != kept_flags.end();
      const bool is_conf = flag->name == "rdzv-conf" && !request.job.elastic;
      if (is_kept && !is_conf) continue;
      request.job.flags.push_back(flag->takes_value() ? fmt::format("--{}={}", flag->name, text)
                                                      : "--" + flag->name);
    }
    request.job.flags.emplace_back("--no-scheduler");
    request.job.is_rehearsal = is_on(flags_.dry_run);
    if (request.job.is_rehearsal) {
      request.job.flags.insert(request.job.flags.end(), {"--dry-run", "--json"});
    }
    read_environment(request.job);
    read_shell(request);
    leave_to_agents();
    return request;
  }

 private:
  template <class T>
  void report_error(const Flag<T>& flag, const std::string& text) {
    diagnostics_.add(flag.place, flag.source + text);
  }

  void read_hosts(fanout::Wanted& wanted) {
    if (flags_.hosts.given && flags_.hostfile.given) {
      report_error(flags_.hostfile, " and --hosts exclude each other\n  hint: use only one");
    }
    const HostList hosts = flags_.hosts.value
                               ? fanout::hosts_of(*flags_.hosts.value, line_.environment)
                               : fanout::hosts_in_file(flags_.hostfile.value.value_or(""),
                                                       flags_.hostfile.source, line_.read_file);
    if (!hosts) {
      for (const auto& error : hosts.error()) {
        if (flags_.hosts.value)
          report_error(flags_.hosts, ": " + error);
        else
          diagnostics_.add(flags_.hostfile.place, error);
      }
      return;
    }
    wanted.members = fanout::members_of(*hosts);
  }

  // --nnodes may set the minimum number of nodes; its maximum must match the number of hosts.
  void read_nodes(fanout::Request& request) {
    const int count = static_cast<int>(request.wanted.members.size());
    const auto range = flags_.nnodes.value.value_or(NodeRange{count, count});
    if (count > 0 && range.highest != count) {
      report_error(flags_.nnodes,
                   fmt::format("={} does not match {} host{}\n  hint: remove the flag, or set the "
                               "minimum number of nodes with --nnodes=MIN:{}",
                               flags_.nnodes.text, count, count == 1 ? "" : "s", count));
    }
    request.wanted.nodes_min = range.lowest;
    request.wanted.elastic = request.job.elastic = range.lowest < range.highest;
    if (request.job.elastic) {
      request.job.nodes = fmt::format("{}:{}", range.lowest, range.highest);
    } else if (count > 1) {
      request.job.nodes = fmt::format("{}", count);
    }
  }

  // Rejects flags that `--hosts` sets on each node.
  void refuse_places() {
    const auto refuse = [&](const auto& flag, bool is_given, std::string_view hint) {
      if (is_given) {
        report_error(flag, fmt::format(" cannot be used with --hosts\n  hint: {}", hint));
      }
    };
    refuse(flags_.node_rank, flags_.node_rank.given,
           "remove the flag; ranks follow the order of the hosts");
    refuse(flags_.local_addr, flags_.local_addr.given, "remove the flag");
    refuse(flags_.standalone, is_on(flags_.standalone), "remove the flag");
    refuse(flags_.rdzv_endpoint, flags_.rdzv_endpoint.given, "use --master-addr and --master-port");
    // The agents on the hosts write the events.
    const std::string events = flags_.events.value.value_or("");
    refuse(flags_.events,
           flags_.events.given &&
               (events.starts_with("/dev/fd/") || events.starts_with("/proc/self/fd/")),
           "name a file; each host writes its own");
  }

  void read_environment(fanout::JobTerms& job) {
    auto passed =
        fanout::passed_environment(line_.environment, flags_.export_variables.value.value_or(""));
    if (passed)
      job.environment = *std::move(passed);
    else
      report_error(flags_.export_variables, ": " + passed.error().reason);
  }

  void read_shell(fanout::Request& request) {
    request.shell = fanout::remote_shell(flags_.remote_shell.value, flags_.hosts.value);
    if (request.shell.empty()) report_error(flags_.remote_shell, " is empty");
  }

  void leave_to_agents() {
    flags_.nnodes = {};
    flags_.master_addr = {};
    flags_.master_port = {};
    flags_.rdzv_backend = {};
    flags_.rdzv_endpoint = {};
    flags_.node_rank = {};
    // gpu, cpu and auto are counted on each host; a number can be checked here.
    const auto& workers = flags_.nproc_per_node.value.value_or("");
    if (workers == "gpu" || workers == "cpu" || workers == "auto") flags_.nproc_per_node = {};
  }

  Flags& flags_;
  const CommandLine& line_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<fanout::Request> fan_out_request(Flags& flags, const Declaration& declaration,
                                               const CommandLine& line, Diagnostics& diagnostics) {
  if (!flags.hosts.given && !flags.hostfile.given) {
    const auto report_error = [&diagnostics](const auto& flag, bool is_given) {
      if (!is_given) return;
      diagnostics.add(flag.place, flag.source + " has no effect without --hosts or --hostfile");
    };
    report_error(flags.remote_shell, flags.remote_shell.given);
    report_error(flags.export_variables, flags.export_variables.given);
    report_error(flags.ship, is_on(flags.ship));
    return std::nullopt;
  }
  return FanoutReader(flags, line, diagnostics).read(declaration);
}

}  // namespace cpprun
