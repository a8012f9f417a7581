// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "launcher/cli/help.h"
#include "proto/bounds.h"
#include "rendezvous/command_pages.h"
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

Declaration::Declaration(Flags& flags) : program_(cpprun_facts()) {
  program_.flags.reserve(flags_expected);
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

template <class T>
FlagFacts& Declaration::bind(Flag<T>& flag, std::string_view names, std::string_view value,
                             std::string_view help, TakeValue take) {
  auto& facts = add_flag(program_.flags, names, value, help, std::move(take));
  facts.group = group_;
  facts.variables = {pet_variable(facts.name)};
  flag.source = "--" + facts.name;
  flag.place = static_cast<int>(bindings_.size());
  bindings_.push_back(
      {.given = &flag.given, .text = &flag.text, .source = &flag.source, .origin = &flag.origin});
  return facts;
}

template <class T, class Read>
FlagFacts& Declaration::add(Flag<T>& flag, std::string_view names, std::string_view value,
                            Read read, std::string_view help) {
  return bind(flag, names, value, help, [&flag, read](const std::string& text) -> Result<void> {
    auto result = read(text);
    if (!result) return failure(std::move(result.error().reason));
    flag.value = std::move(*result);
    return {};
  });
}

FlagFacts& Declaration::add(Flag<bool>& flag, std::string_view names, std::string_view help) {
  return bind(flag, names, "", help, switch_into(flag.value.emplace(false)));
}

void Declaration::declare_rendezvous(Flags& flags) {
  add(flags.nnodes, "--nnodes", "N|MIN:MAX", node_range,
      "Number of nodes, or a range (default: 1)");
  add(flags.node_rank, "--node-rank", "N", whole_number_within(0, any_count_max),
      "Rank of this node, starting at 0");
  add(flags.standalone, "--standalone", "Run on this node only, on a free port");
  add(flags.master_addr, "--master-addr", "HOST", host_name,
      "Address of node 0 (default: 127.0.0.1)");
  add(flags.master_port, "--master-port", "PORT", whole_number_within(0, port_max),
      "Port on node 0 (default: 29500; any free port for one node)");
  add(flags.rdzv_backend, "--rdzv-backend", "NAME", any_text,
      "How nodes find each other: static (default), c10d, etcd")
      .choices = {"static", "c10d", "etcd"};
  add(flags.rdzv_endpoint, "--rdzv-endpoint", "HOST[:PORT],...", any_text,
      "Rendezvous address, instead of --master-*; a list of cpprunds or etcd members")
      .may_be_empty = true;  // torchrun's default
  add(flags.rdzv_id, "--rdzv-id", "ID", job_id, "Job ID, the same on all nodes");
  add(flags.rdzv_conf, "--rdzv-conf", "K=V,...", any_text,
      "join_timeout, last_call_timeout, keep_alive_interval, ...")
      .may_be_empty = true;  // torchrun's default
  add(flags.local_addr, "--local-addr", "HOST", host_name,
      "Address of this node, as other nodes see it");
  add(flags.secret_file, "--secret-file", "FILE", any_text,
      "Shared secret of the nodes (default: ~/.config/cpprun/secret)")
      .variables.emplace_back("CPPRUN_SECRET_FILE");
  add(flags.store, "--store", "KIND", any_text,
      "How workers reach the store: through this cpprun (local), or direct")
      .choices = {"local", "direct"};
  add(flags.standby, "--standby", "WHO", any_text,
      "Whether another node replaces a lost master in elastic jobs: auto (default), none")
      .choices = {"auto", "none"};
  program_.flags.back().yields = true;  // --stand means --standalone
  add(flags.insecure, "--insecure", "Suppress the note about a missing secret");
  add(flags.no_scheduler, "--no-scheduler",
      "Ignore the settings of Slurm, MPI, PBS, LSF and Kubernetes");
}

void Declaration::declare_hosts(Flags& flags) {
  const std::size_t first = facts().size();
  add(flags.hosts, "--hosts", "HOST[:N],...|slurm", any_text,
      "Start the job on these hosts through ssh, N workers each")
      .choices = {"slurm"};
  add(flags.hostfile, "--hostfile", "FILE", any_text,
      "Read the hosts from a file with lines \"HOST slots=N\"");
  add(flags.remote_shell, "--remote-shell", "CMD {host}", any_text,
      "Command to use instead of ssh, e.g. \"kubectl exec -i {host} --\"");
  add(flags.export_variables, "--export", "NAME[=VALUE],...", any_text,
      "Pass these environment variables to all hosts");
  add(flags.ship, "--ship", "Copy this binary to hosts that lack it or have another version");
  // These flags are for the console. An agent that read them would start agents itself.
  for (std::size_t at = first; at < facts().size(); ++at) {
    program_.flags[at].variables.clear();
  }
}

void Declaration::declare_workers(Flags& flags) {
  add(flags.nproc_per_node, "--nproc-per-node", "N|cpu|gpu|auto", any_text,
      "Workers on this node (default: 1; in batch jobs 1 per GPU)")
      .choices = {"cpu", "gpu", "auto"};
  add(flags.module, "-m,--module", "Run the script as a Python module, like python -m");
  add(flags.no_python, "--no-python", "Run the script directly, without Python; searches PATH");
  add(flags.run_path, "--run-path", "Run the script with Python, whatever its name");
  add(flags.role, "--role", "NAME", name_within(bounds::role_bytes_max),
      "Name of the workers' role (default: default)")
      .may_be_empty = true;  // TorchX passes it so
  add(flags.pass_local_rank, "--pass-local-rank", "OPTION", any_text,
      "Also pass --OPTION=<local rank> to the script");
  add(flags.use_env, "--use-env", "No effect: LOCAL_RANK is always set").variables.clear();
  add(flags.virtual_local_rank, "--virtual-local-rank",
      "Each worker sees only one GPU and has LOCAL_RANK=0");
  auto& binding = add(flags.numa_binding, "--numa-binding", "KIND", any_text,
                      "Bind workers near their GPU: node, socket, exclusive, core-complex");
  binding.variables.clear();
  binding.only({"node", "socket", "exclusive", "core-complex"});
  auto& warm = add(flags.warm, "--warm", "MODULE,...", warm_modules,
                   "Fork restarted workers from a Python that has imported these (default: torch)");
  warm.alone = "on";
  warm.choices = {"on", "off"};
}

void Declaration::declare_endings(Flags& flags) {
  add(flags.max_restarts, "--max-restarts", "N[,CAUSE=N]", restart_budgets,
      "Restarts of the whole job (default: 0), with limits per cause, e.g. 3,hang=1");
  add(flags.restart_scope, "--restart-scope", "WHAT", any_text,
      "Restart all workers (job, default), or only the worker that failed, if workers are "
      "independent (worker)")
      .choices = {"job", "worker"};
  add(flags.restart_backoff, "--restart-backoff", "SECONDS", policy_seconds,
      "Pause before a restart; doubles each time");
  add(flags.restart_window, "--restart-window", "SECONDS", policy_seconds,
      "Count only the restarts of the last SECONDS");
  add(flags.no_restart_codes, "--no-restart-codes", "CODES", final_codes,
      "Exit codes and signals that end the job without a restart, e.g. 2,SIGSEGV");
  add(flags.free_restart_codes, "--free-restart-codes", "CODES", final_codes,
      "Exit codes and signals whose restarts are not counted, e.g. 75");
  add(flags.max_no_progress, "--max-no-progress", "N", whole_number_within(1, any_count_max),
      "End the job after N restarts in a row without progress");
  add(flags.max_host_failures, "--max-host-failures", "N[/SECONDS]", host_limit,
      "Exclude a host after N failed rounds (within SECONDS)");
  add(flags.restart_state, "--restart-state", "FILE", any_text,
      "File that keeps the number of used restarts across a requeue of the job");
  add(flags.on_failure, "--on-failure", "WHAT", any_text,
      "Restart all workers (restart, default), or keep the others and change their process group "
      "(reconfigure)")
      .choices = {"restart", "reconfigure"};
  add(flags.shutdown_timeout, "--shutdown-timeout", "SECONDS",
      whole_number_within(0, any_count_max),
      "Time between SIGTERM and SIGKILL (default: 30; under Slurm and Kubernetes usually 25)")
      .variables.emplace_back("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  add(flags.signal_scope, "--signal-scope", "WHAT", any_text,
      "Signal a worker's main process first (process, default) or its process group (group)")
      .choices = {"process", "group"};
  add(flags.stragglers, "--stragglers", "WHAT", any_text,
      "Processes left behind by a successful job: wait (default), kill, leave")
      .choices = {"wait", "kill", "leave"};
  add(flags.beat_timeout, "--beat-timeout", "SECONDS|auto", beat_timeout,
      "Heartbeat timeout of workers that send heartbeats")
      .choices = {"auto"};
  add(flags.hang_timeout, "--hang-timeout", "SECONDS|off", hang_timeout,
      "Capture all stacks and end the round if no rank makes progress for this long "
      "(default: off)")
      .choices = {"off"};
  add(flags.probe, "--probe", "WHEN", any_text,
      "Let cpprun read the stacks of workers: auto (default: with --hang-timeout), on, off")
      .choices = {"auto", "on", "off"};
  add(flags.signals_to_handle, "--signals-to-handle", "NAMES", any_text,
      "Signals that end the job (default: SIGTERM,SIGINT,SIGHUP,SIGQUIT)")
      .choices = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"};
  program_.flags.back().may_be_empty = true;  // empty means none, as in torchrun
  add(flags.preemption_notice, "--preemption-notice", "FILE|CMD", any_text,
      "Signal all ranks to save when FILE appears or CMD exits with 0; or slurm")
      .choices = {"slurm"};
  add(flags.report, "--report", "FILE", any_text,
      "Write the result of the job and the causes of failures as JSON");
  add(flags.events, "--events", "FILE", any_text,
      "Append events as they happen, one JSON object per line");
  add(flags.status_access, "--status-access", "WHO", any_text,
      "Read access: user (default), host, network, none (no control)")
      .choices = {"none", "user", "host", "network"};
}

void Declaration::declare_log_files(Flags& flags) {
  add(flags.log_dir, "--log-dir", "DIR", any_text, "Directory for log files").may_be_empty =
      true;  // torchrun treats it as the default
  add(flags.log_keep, "--log-keep", "N", whole_number_within(1, any_count_max),
      "Keep the logs of the last N rounds (default: all)");
  add(flags.log_max_bytes, "--log-max-bytes", "BYTES", log_bytes,
      "Rotate a log file at this size; the previous one is kept");
  add(flags.redirects, "-r,--redirects", "STREAMS", stream_choices,
      "Write to files: 0 none, 1 stdout, 2 stderr, 3 both; or RANK:0-3,...")
      .choices = {"0", "1", "2", "3"};
  add(flags.tee, "-t,--tee", "STREAMS", stream_choices,
      "Write to console and files: 1 stdout, 2 stderr, 3 both; or RANK:0-3,...")
      .choices = {"0", "1", "2", "3"};
  add(flags.local_ranks_filter, "--local-ranks-filter", "RANKS", local_ranks,
      "Show only these local ranks on the console")
      .may_be_empty = true;  // torchrun's default: all of them
  auto& prefix = add(flags.log_line_prefix_template, "--log-line-prefix-template", "TEXT", any_text,
                     "Prefix of teed lines, e.g. \"[${rank}@${hostname}] \"");
  prefix.variables.emplace_back("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  prefix.may_be_empty = true;  // torchrun treats it as the default
}

void Declaration::declare_own_words(Flags& flags) {
  add(flags.stderr_kind, "--stderr", "KIND", any_text,
      "Workers' output: through cpprun, so that reports can quote it (pass, default), or inherit")
      .choices = {"pass", "inherit"};
  add(flags.duplicate_stdout_filters, "--duplicate-stdout-filters", "WORDS", any_text,
      "Also collect teed stdout lines that contain one of these words in a file")
      .may_be_empty = true;  // torchrun's default
  add(flags.duplicate_stderr_filters, "--duplicate-stderr-filters", "WORDS", any_text,
      "The same for stderr")
      .may_be_empty = true;  // torchrun's default
  auto& level = add(flags.log_level, "--log-level", "LEVEL", any_text,
                    "Level of cpprun's own messages: error, warning, info (default), debug");
  level.choices = {"error", "warning", "info", "debug"};
  level.variables.emplace_back("CPPRUN_LOG_LEVEL");
  add(flags.log_time, "--log-time", "WHEN", any_text,
      "Timestamps on cpprun's messages: auto (default; not on a terminal), always, never")
      .only({"auto", "always", "never"});
  add(flags.event_log_handler, "--event-log-handler", "NAME", any_text,
      "Print events to stderr (console), or nowhere (null, default)")
      .choices = {"console", "null"};
}

void Declaration::declare_compatibility(Flags& flags) {
  add(flags.monitor_interval, "--monitor-interval", "SECONDS", seconds_above_zero,
      "No effect: cpprun does not poll");
  add(flags.exit_barrier_timeout, "--exit-barrier-timeout", "SECONDS", seconds_above_zero,
      "No effect: there is no barrier at the end of a job");
  add(flags.start_method, "--start-method", "NAME", any_text,
      "No effect: every worker is started as a new program")
      .only({"spawn", "fork", "forkserver"});
  auto& specs =
      add(flags.logs_specs, "--logs-specs", "NAME", any_text, "Only \"default\" is accepted");
  specs.variables.clear();
  specs.choices = {"default"};
}

void Declaration::declare_general(Flags& flags) {
  add(flags.config, "--config", "FILE", any_text,
      "File with defaults of flags, one per line, e.g. nnodes = 2 (or CPPRUN_CONFIG)")
      .variables = {"CPPRUN_CONFIG"};
  // No environment variable: it would silently turn every launch of a shell into a dry run.
  add(flags.dry_run, "--dry-run", "Print what would be started, and exit").variables.clear();
  add(flags.json, "--json", "With --dry-run: print JSON").variables.clear();
  auto& completion = add(flags.print_completion, "--print-completion", "SHELL", any_text,
                         "Print completions for a shell: bash, zsh, fish or tcsh");
  completion.only({completed_shells.begin(), completed_shells.end()});
  completion.variables.clear();
  add(flags.print_man, "--print-man", "Print the manual page").variables.clear();
  add(flags.help, "-h,--help",
      "Show the most used flags; --help all, --help TOPIC or --help FLAG show more")
      .variables.clear();
  add(flags.version, "--version", "Show the version").variables.clear();
  for (auto& flag : program_.flags) flag.in_file = flag.group != group_ && flag.group != "Hosts";
  // Flags that scripts often have too, such as --config and --log-dir, are not listed.
  for (const char* name : {"nnodes", "nproc-per-node", "node-rank", "standalone", "master-addr",
                           "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf",
                           "max-restarts", "no-python", "hosts", "hostfile"}) {
    const auto flag = std::ranges::find(program_.flags, name, &FlagFacts::name);
    flag->is_launchers_own = true;
  }
}

const FlagFacts* Declaration::find(std::string_view name) const {
  const auto flag = std::ranges::find(facts(), name, &FlagFacts::name);
  return flag == facts().end() ? nullptr : &*flag;
}

void Declaration::tell(const FlagFacts& flag, std::string text, SettingOrigin origin,
                       std::string source) {
  auto& binding = bindings_[static_cast<std::size_t>(&flag - facts().data())];
  *binding.given = true;
  *binding.text = std::move(text);
  *binding.source = std::move(source);
  *binding.origin = origin;
  binding.is_resolved = false;
}

std::vector<std::pair<const FlagFacts*, std::string>> Declaration::given() const {
  std::vector<std::pair<const FlagFacts*, std::string>> told;
  for (std::size_t at = 0; at < facts().size(); ++at) {
    const auto& flag = facts()[at];
    // A flag without a value may have been set to false.
    const bool is_off =
        !flag.takes_value() && (*bindings_[at].text == "false" || *bindings_[at].text == "0");
    if (*bindings_[at].given && !is_off) told.emplace_back(&flag, *bindings_[at].text);
  }
  return told;
}

void Declaration::resolve(Diagnostics& diagnostics) {
  for (std::size_t at = 0; at < facts().size(); ++at) {
    auto& binding = bindings_[at];
    if (!*binding.given || std::exchange(binding.is_resolved, true)) continue;
    const auto& flag = facts()[at];
    const bool is_empty = flag.takes_value() && binding.text->empty() && !flag.may_be_empty;
    const auto taken =
        is_empty ? failure(
                       ": empty value; check that the variable used for the value is set, or "
                       "remove the flag")
                 : give_value(flag, *binding.text);
    if (!taken) diagnostics.add(static_cast<int>(at), *binding.source + taken.error().reason);
  }
}

}  // namespace cpprun
