// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/declaration.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace {

constexpr std::size_t flags_expected = 80;  // capacity for all of them

std::string pet_variable(std::string_view name) {
  std::string variable = "PET_";
  for (const char byte : name) {
    variable +=
        byte == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(byte)));
  }
  return variable;
}

}  // namespace

Declaration::Declaration(Flags& flags) {
  facts_.reserve(flags_expected);
  bindings_.reserve(flags_expected);
  group_ = "Rendezvous";
  declare_rendezvous(flags);
  group_ = "Hosts";
  declare_hosts(flags);
  group_ = "Workers";
  declare_workers(flags);
  group_ = "Failures and restarts";
  declare_endings(flags);
  group_ = "Logs";
  declare_log_files(flags);
  declare_own_words(flags);
  group_ = "Compatibility with torchrun";
  declare_compatibility(flags);
  group_ = "General";
  declare_general(flags);
}

Declaration::~Declaration() = default;

template <class T>
FlagFacts& Declaration::bind(Flag<T>& flag, const char* names, const char* value, const char* help,
                             std::function<CLI::Option*(CLI::App&)> make) {
  auto& facts = facts_.emplace_back();
  std::string_view spelled = names;
  if (!spelled.starts_with("--")) {
    facts.letter = spelled[1];
    spelled.remove_prefix(std::string_view("-x,").size());
  }
  facts.name = spelled.substr(2);
  facts.value = value;
  facts.group = group_;
  facts.help = help;
  facts.variables = {pet_variable(facts.name)};
  flag.source = spelled;
  flag.place = static_cast<int>(bindings_.size());
  bindings_.push_back({.make = std::move(make),
                       .given = &flag.given,
                       .text = &flag.text,
                       .source = &flag.source,
                       .origin = &flag.origin,
                       .place = flag.place});
  return facts;
}

template <class T>
FlagFacts& Declaration::add(Flag<T>& flag, const char* names, const char* value,
                            ValueReader<T> read, const char* help) {
  auto take = [&flag, read = std::move(read)](const CLI::results_t& texts) {
    auto result = read(texts.front());
    if (!result) throw CLI::ValidationError(result.error().reason);
    flag.value = std::move(*result);
    return true;
  };
  return bind(flag, names, value, help, [names, take = std::move(take)](CLI::App& app) {
    return app.add_option(names, CLI::callback_t(take));
  });
}

FlagFacts& Declaration::add(Flag<bool>& flag, const char* names, const char* help) {
  bool& value = flag.value.emplace(false);
  return bind(flag, names, "", help,
              [names, &value](CLI::App& app) { return app.add_flag(names, value); });
}

void Declaration::declare_rendezvous(Flags& flags) {
  add<NodeRange>(flags.nnodes, "--nnodes", "N|MIN:MAX", node_range,
                 "Number of nodes, or a range (default: 1)");
  add(flags.node_rank, "--node-rank", "N", whole_number_within(0, any_count_max),
      "Rank of this node, starting at 0");
  add(flags.standalone, "--standalone", "Run on this node only, on a free port");
  add<std::string>(flags.master_addr, "--master-addr", "HOST", host_name,
                   "Address of node 0 (default: 127.0.0.1)");
  add(flags.master_port, "--master-port", "PORT", whole_number_within(0, port_max),
      "Port on node 0 (default: 29500)");
  add<std::string>(flags.rdzv_backend, "--rdzv-backend", "NAME", any_text,
                   "How nodes find each other: static (default), c10d, etcd")
      .choices = {"static", "c10d", "etcd"};
  add<std::string>(flags.rdzv_endpoint, "--rdzv-endpoint", "HOST[:PORT],...", any_text,
                   "Rendezvous address, instead of --master-*; a list of cpprunds or etcd members")
      .may_be_empty = true;  // torchrun's default
  add<std::string>(flags.rdzv_id, "--rdzv-id", "ID", job_id, "Job ID, the same on all nodes");
  add<std::string>(flags.rdzv_conf, "--rdzv-conf", "K=V,...", any_text,
                   "join_timeout, last_call_timeout, keep_alive_interval, ...")
      .may_be_empty = true;  // torchrun's default
  add<std::string>(flags.local_addr, "--local-addr", "HOST", host_name,
                   "Address of this node, as other nodes see it");
  add<std::string>(flags.secret_file, "--secret-file", "FILE", any_text,
                   "Shared secret of the nodes (default: ~/.config/cpprun/secret)")
      .variables.emplace_back("CPPRUN_SECRET_FILE");
  add<std::string>(flags.store, "--store", "KIND", any_text,
                   "How workers reach the store: through this cpprun (local), or direct")
      .choices = {"local", "direct"};
  add<std::string>(
      flags.standby, "--standby", "WHO", any_text,
      "Whether another node replaces a lost master in elastic jobs: auto (default), none")
      .choices = {"auto", "none"};
  facts_.back().yields = true;  // --stand means --standalone
  add(flags.insecure, "--insecure", "Suppress the warning about a missing secret");
  add(flags.no_scheduler, "--no-scheduler",
      "Ignore the settings of Slurm, MPI, PBS, LSF and Kubernetes");
}

void Declaration::declare_hosts(Flags& flags) {
  const std::size_t first = facts_.size();
  add<std::string>(flags.hosts, "--hosts", "HOST[:N],...|slurm", any_text,
                   "Start the job on these hosts through ssh, N workers each")
      .choices = {"slurm"};
  add<std::string>(flags.hostfile, "--hostfile", "FILE", any_text,
                   "Read the hosts from a file with lines \"HOST slots=N\"");
  add<std::string>(flags.remote_shell, "--remote-shell", "CMD {host}", any_text,
                   "Command to use instead of ssh, e.g. \"kubectl exec -i {host} --\"");
  add<std::string>(flags.export_variables, "--export", "NAME[=VALUE],...", any_text,
                   "Pass these environment variables to all hosts");
  add(flags.ship, "--ship", "Copy this binary to hosts that lack it or have another version");
  // These flags are for the console. An agent that read them would start agents itself.
  for (std::size_t at = first; at < facts_.size(); ++at) facts_[at].variables.clear();
}

void Declaration::declare_workers(Flags& flags) {
  add<std::string>(flags.nproc_per_node, "--nproc-per-node", "N|cpu|gpu|auto", any_text,
                   "Workers on this node (default: 1)")
      .choices = {"cpu", "gpu", "auto"};
  add(flags.module, "-m,--module", "Run the script as a Python module, like python -m");
  add(flags.no_python, "--no-python", "Run the script directly, without Python; searches PATH");
  add(flags.run_path, "--run-path", "Run the script with Python, whatever its name");
  add(flags.role, "--role", "NAME", name_within(bounds::role_bytes_max),
      "Name of the workers' role (default: default)")
      .may_be_empty = true;  // TorchX passes it so
  add<std::string>(flags.pass_local_rank, "--pass-local-rank", "OPTION", any_text,
                   "Also pass --OPTION=<local rank> to the script");
  add(flags.use_env, "--use-env", "No effect: LOCAL_RANK is always set").variables.clear();
  add(flags.virtual_local_rank, "--virtual-local-rank",
      "Each worker sees only one GPU and has LOCAL_RANK=0");
  auto& binding =
      add<std::string>(flags.numa_binding, "--numa-binding", "KIND", any_text,
                       "Bind workers near their GPU: node, socket, exclusive, core-complex");
  binding.variables.clear();
  binding.choices = {"node", "socket", "exclusive", "core-complex"};
}

void Declaration::declare_endings(Flags& flags) {
  add<RestartBudgets>(
      flags.max_restarts, "--max-restarts", "N[,CAUSE=N]", restart_budgets,
      "Restarts of the whole job (default: 0), with limits per cause, e.g. 3,hang=1");
  add<Duration>(flags.restart_backoff, "--restart-backoff", "SECONDS", policy_seconds,
                "Pause before a restart; doubles each time");
  add<Duration>(flags.restart_window, "--restart-window", "SECONDS", policy_seconds,
                "Count only the restarts of the last SECONDS");
  add<std::vector<int>>(
      flags.no_restart_codes, "--no-restart-codes", "CODES", final_codes,
      "Exit codes and signals that end the job without a restart, e.g. 2,SIGSEGV");
  add<std::vector<int>>(flags.free_restart_codes, "--free-restart-codes", "CODES", final_codes,
                        "Exit codes and signals whose restarts are not counted, e.g. 75");
  add(flags.max_no_progress, "--max-no-progress", "N", whole_number_within(1, any_count_max),
      "End the job after N restarts in a row without progress");
  add<HostLimit>(flags.max_host_failures, "--max-host-failures", "N[/SECONDS]", host_limit,
                 "Exclude a host after N failures (within SECONDS)");
  add<std::string>(flags.restart_state, "--restart-state", "FILE", any_text,
                   "File that keeps the number of used restarts across a requeue of the job");
  add(flags.shutdown_timeout, "--shutdown-timeout", "SECONDS",
      whole_number_within(0, any_count_max),
      "Time between SIGTERM and SIGKILL (default: 30; under Slurm and Kubernetes usually 25)")
      .variables.emplace_back("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  add<std::string>(
      flags.signal_scope, "--signal-scope", "WHAT", any_text,
      "Signal a worker's main process first (process, default) or its process group (group)")
      .choices = {"process", "group"};
  add<std::string>(flags.stragglers, "--stragglers", "WHAT", any_text,
                   "Processes left behind by a successful job: wait (default), kill, leave")
      .choices = {"wait", "kill", "leave"};
  add<HeartbeatTimeout>(flags.beat_timeout, "--beat-timeout", "SECONDS|auto", beat_timeout,
                        "Heartbeat timeout of workers that send heartbeats")
      .choices = {"auto"};
  add<std::string>(flags.signals_to_handle, "--signals-to-handle", "NAMES", any_text,
                   "Signals that end the job (default: SIGTERM,SIGINT,SIGHUP,SIGQUIT)")
      .choices = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"};
  facts_.back().may_be_empty = true;  // empty means none, as in torchrun
  add<std::string>(flags.preemption_notice, "--preemption-notice", "FILE|CMD", any_text,
                   "Signal all ranks to save when FILE appears or CMD exits with 0; or slurm")
      .choices = {"slurm"};
  add<std::string>(flags.report, "--report", "FILE", any_text,
                   "Write the result of the job and the causes of failures as JSON");
  add<std::string>(flags.events, "--events", "FILE", any_text,
                   "Append events as they happen, one JSON object per line");
  add<std::string>(flags.status_access, "--status-access", "WHO", any_text,
                   "Read access to the status page: none, user (default), host, network")
      .choices = {"none", "user", "host", "network"};
}

void Declaration::declare_log_files(Flags& flags) {
  add<std::string>(flags.log_dir, "--log-dir", "DIR", any_text, "Directory for log files")
      .may_be_empty = true;  // torchrun treats it as the default
  add(flags.log_keep, "--log-keep", "N", whole_number_within(1, any_count_max),
      "Keep the logs of the last N attempts (default: all)");
  add<std::uint64_t>(flags.log_max_bytes, "--log-max-bytes", "BYTES", log_bytes,
                     "Rotate a log file at this size; the previous one is kept");
  add<StreamChoices>(flags.redirects, "-r,--redirects", "STREAMS", stream_choices,
                     "Write to files: 0 none, 1 stdout, 2 stderr, 3 both; or RANK:0-3,...")
      .choices = {"0", "1", "2", "3"};
  add<StreamChoices>(flags.tee, "-t,--tee", "STREAMS", stream_choices,
                     "Write to console and files: 1 stdout, 2 stderr, 3 both; or RANK:0-3,...")
      .choices = {"0", "1", "2", "3"};
  add<std::vector<int>>(flags.local_ranks_filter, "--local-ranks-filter", "RANKS", local_ranks,
                        "Show only these local ranks on the console")
      .may_be_empty = true;  // torchrun's default: all of them
  auto& prefix =
      add<std::string>(flags.log_line_prefix_template, "--log-line-prefix-template", "TEXT",
                       any_text, "Prefix of teed lines, e.g. \"[${rank}@${hostname}] \"");
  prefix.variables.emplace_back("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  prefix.may_be_empty = true;  // torchrun treats it as the default
}

void Declaration::declare_own_words(Flags& flags) {
  add<std::string>(
      flags.stderr_kind, "--stderr", "KIND", any_text,
      "Workers' output: through cpprun, so that reports can quote it (pass, default), or inherit")
      .choices = {"pass", "inherit"};
  add<std::string>(flags.duplicate_stdout_filters, "--duplicate-stdout-filters", "WORDS", any_text,
                   "Also collect teed stdout lines that contain one of these words in a file")
      .may_be_empty = true;  // torchrun's default
  add<std::string>(flags.duplicate_stderr_filters, "--duplicate-stderr-filters", "WORDS", any_text,
                   "The same for stderr")
      .may_be_empty = true;  // torchrun's default
  auto& level =
      add<std::string>(flags.log_level, "--log-level", "LEVEL", any_text,
                       "Level of cpprun's own messages: error, warning, info (default), debug");
  level.choices = {"error", "warning", "info", "debug"};
  level.variables.emplace_back("CPPRUN_LOG_LEVEL");
  add<std::string>(
      flags.log_time, "--log-time", "WHEN", any_text,
      "Timestamps on cpprun's messages: auto (default; not on a terminal), always, never")
      .choices = {"auto", "always", "never"};
  add<std::string>(flags.event_log_handler, "--event-log-handler", "NAME", any_text,
                   "Print events to stderr (console), or nowhere (null, default)")
      .choices = {"console", "null"};
}

void Declaration::declare_compatibility(Flags& flags) {
  add<double>(flags.monitor_interval, "--monitor-interval", "SECONDS", seconds_above_zero,
              "No effect: cpprun does not poll");
  add<double>(flags.exit_barrier_timeout, "--exit-barrier-timeout", "SECONDS", seconds_above_zero,
              "No effect: there is no barrier at the end of a job");
  add<std::string>(flags.start_method, "--start-method", "NAME", any_text,
                   "No effect: every worker is started as a new program")
      .choices = {"spawn", "fork", "forkserver"};
  auto& specs = add<std::string>(flags.logs_specs, "--logs-specs", "NAME", any_text,
                                 "Only \"default\" is accepted");
  specs.variables.clear();
  specs.choices = {"default"};
}

void Declaration::declare_general(Flags& flags) {
  add<std::string>(flags.config, "--config", "FILE", any_text,
                   "File with defaults of flags, one per line, e.g. nnodes = 2 (or CPPRUN_CONFIG)")
      .variables = {"CPPRUN_CONFIG"};
  // No environment variable: it would silently turn every launch of a shell into a dry run.
  add(flags.dry_run, "--dry-run", "Print what would be started, and exit").variables.clear();
  add(flags.json, "--json", "With --dry-run: print JSON").variables.clear();
  add<std::string>(flags.print_completion, "--print-completion", "SHELL", any_text,
                   "Print completions for bash, zsh, fish or tcsh")
      .choices = {"bash", "zsh", "fish", "tcsh"};
  facts_.back().variables.clear();
  add(flags.print_man, "--print-man", "Print the manual page").variables.clear();
  add(flags.help, "-h,--help",
      "Show the most used flags; --help all, --help TOPIC or --help FLAG show more")
      .variables.clear();
  add(flags.version, "--version", "Show the version").variables.clear();
  for (auto& flag : facts_) flag.in_file = flag.group != group_ && flag.group != "Hosts";
  // Flags that scripts often have too, such as --config and --log-dir, are not listed.
  for (const char* name : {"nnodes", "nproc-per-node", "node-rank", "standalone", "master-addr",
                           "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf",
                           "max-restarts", "no-python", "hosts", "hostfile"}) {
    const auto flag = std::ranges::find(facts_, name, &FlagFacts::name);
    flag->is_launchers_own = true;
  }
}

const FlagFacts* Declaration::find(std::string_view name) const {
  for (const auto& flag : facts_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

void Declaration::tell(const FlagFacts& flag, std::string text, SettingOrigin origin,
                       std::string source) {
  if (app_ == nullptr) {
    app_ = std::make_unique<CLI::App>("", "cpprun");
    // --help is an ordinary flag here because it must win over errors.
    app_->set_help_flag();
  }
  auto& binding = bindings_[static_cast<std::size_t>(&flag - facts_.data())];
  if (binding.option == nullptr) binding.option = binding.make(*app_);
  binding.option->clear();
  binding.option->add_result(text);
  *binding.given = true;
  *binding.text = std::move(text);
  *binding.source = std::move(source);
  *binding.origin = origin;
  binding.is_resolved = false;
}

std::vector<std::pair<const FlagFacts*, std::string>> Declaration::given() const {
  std::vector<std::pair<const FlagFacts*, std::string>> told;
  for (std::size_t at = 0; at < facts_.size(); ++at) {
    // A flag without a value may have been set to false.
    const bool is_off =
        !facts_[at].takes_value() && (*bindings_[at].text == "false" || *bindings_[at].text == "0");
    if (*bindings_[at].given && !is_off) told.emplace_back(&facts_[at], *bindings_[at].text);
  }
  return told;
}

void Declaration::resolve(Diagnostics& diagnostics) {
  for (auto& binding : bindings_) {
    if (!*binding.given || std::exchange(binding.is_resolved, true)) continue;
    const auto& facts = facts_[static_cast<std::size_t>(binding.place)];
    if (facts.takes_value() && binding.text->empty() && !facts.may_be_empty) {
      diagnostics.add(
          binding.place,
          fmt::format("{}: empty value; check that the variable used for the value is set, or "
                      "remove the flag",
                      *binding.source));
      continue;
    }
    try {
      binding.option->run_callback();
    } catch (const CLI::ConversionError&) {
      // CLI11 itself only converts flags without a value.
      diagnostics.add(binding.place, fmt::format("{}={} is neither true nor false", *binding.source,
                                                 *binding.text));
    } catch (const CLI::ParseError& error) {
      diagnostics.add(binding.place, *binding.source + error.what());
    }
  }
}

}  // namespace cpprun
