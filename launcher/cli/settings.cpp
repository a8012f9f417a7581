// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <optional>
#include <string_view>
#include <type_traits>

#include "launcher/cli/rendezvous_settings.h"
#include "launcher/plan/devices.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/link/bounds.h"
#include "proto/secure/secret.h"
#include "proto/signal_names.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

template <class T>
std::string spelled(const Flag<T>& flag) {
  // A typed flag without a value is shown by name only.
  const bool has_value = flag.origin != SettingOrigin::typed || !std::is_same_v<T, bool>;
  return has_value ? fmt::format("{}={}", flag.source, flag.text) : flag.source;
}

class Precedence {
 public:
  explicit Precedence(Flags& flags) : flags_(flags) {}

  std::vector<std::string> resolve() {
    resolve_hosts();
    resolve_nodes();
    resolve_rendezvous();
    resolve_workers();
    resolve_endings();
    settle_logs();
    return std::move(notes_);
  }

 private:
  template <class T>
  void drop(Flag<T>& flag, const std::string& stronger) {
    notes_.push_back(
        fmt::format("note: {} is ignored: {} takes precedence", spelled(flag), stronger));
    flag.value.reset();
    flag.given = false;
  }

  template <class T, class U>
  void drop_if_weaker(Flag<T>& flag, const Flag<U>& other) {
    if (flag.given && flag.origin < other.origin) drop(flag, spelled(other));
  }

  // For two flags that exclude each other.
  template <class T, class U>
  void drop_weaker(Flag<T>& one, Flag<U>& other) {
    drop_if_weaker(one, other);
    drop_if_weaker(other, one);
  }

  // --hosts starts all nodes; these flags apply to one.
  void resolve_hosts() {
    const auto resolve = [&](const Flag<std::string>& hosts) {
      if (!hosts.given) return;
      drop_if_weaker(flags_.node_rank, hosts);
      drop_if_weaker(flags_.local_addr, hosts);
      drop_if_weaker(flags_.rdzv_endpoint, hosts);
      if (is_on(flags_.standalone)) drop_if_weaker(flags_.standalone, hosts);
      const auto& range = flags_.nnodes.value;
      if (range && range->lowest == range->highest) drop_if_weaker(flags_.nnodes, hosts);
    };
    resolve(flags_.hosts);
    resolve(flags_.hostfile);
  }

  void resolve_nodes() {
    auto& nnodes = flags_.nnodes;
    auto& rank = flags_.node_rank;
    auto& standalone = flags_.standalone;
    if (is_on(standalone) && nnodes.value && nnodes.value->highest > 1) {
      drop_weaker(standalone, nnodes);
    }
    if (!rank.value || *rank.value == 0) return;
    if (is_on(standalone)) return drop(rank, spelled(standalone));
    if (nnodes.value && *rank.value >= nnodes.value->highest) drop_if_weaker(rank, nnodes);
  }

  void resolve_rendezvous() {
    auto& backend = flags_.rdzv_backend;
    auto& endpoint = flags_.rdzv_endpoint;
    if (!backend.value) return;
    const bool is_static = *backend.value == "static";
    const bool has_place = endpoint.value && !endpoint.value->empty();
    if (is_static && has_place && endpoint.value->find(',') != std::string::npos) {
      drop_weaker(backend, endpoint);
    } else if (!is_static && !has_place && flags_.master_addr.given) {
      // With --master-addr, the node of rank 0 hosts the coordinator.
      drop_if_weaker(backend, flags_.master_addr);
    }
  }

  void resolve_workers() {
    if (is_on(flags_.module) && is_on(flags_.no_python) && !is_on(flags_.run_path)) {
      drop_weaker(flags_.module, flags_.no_python);
    }
    if (flags_.pass_local_rank.value && is_on(flags_.use_env)) {
      drop_if_weaker(flags_.pass_local_rank, flags_.use_env);
    }
  }

  void resolve_endings() {
    auto& final_codes = flags_.no_restart_codes;
    auto& free_codes = flags_.free_restart_codes;
    if (!final_codes.value || !free_codes.value) return;
    const auto is_in = [](const std::vector<int>& codes) {
      return [&codes](int code) { return std::ranges::find(codes, code) != codes.end(); };
    };
    if (std::ranges::none_of(*final_codes.value, is_in(*free_codes.value))) return;
    const auto yield = [&](auto& weaker, const auto& stronger) {
      if (weaker.origin >= stronger.origin) return;
      std::erase_if(*weaker.value, is_in(*stronger.value));
      notes_.push_back(fmt::format("note: {} is ignored for the codes in {}", spelled(weaker),
                                   spelled(stronger)));
    };
    yield(final_codes, free_codes);
    yield(free_codes, final_codes);
  }

  void settle_logs() {
    if (flags_.log_dir.value == "/dev/null") {
      const auto resolve = [&](Flag<std::string>& words) {
        if (words.value && !words.value->empty()) drop_weaker(words, flags_.log_dir);
      };
      resolve(flags_.duplicate_stdout_filters);
      resolve(flags_.duplicate_stderr_filters);
    }
    const auto& report = flags_.report.value;
    if (report && !report->starts_with("/dev/") && report == flags_.events.value) {
      drop_weaker(flags_.report, flags_.events);
    }
  }

  Flags& flags_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> drop_contradicted(Flags& flags) {
  return Precedence(flags).resolve();
}

Config config_of(const Flags& flags, const CommandLine& line, Diagnostics& diagnostics) {
  Config config;
  SettingReader reader(flags, line.environment, diagnostics, config.notes);
  read_rendezvous_settings(reader, line.random_id, config);
  read_secret_settings(reader, config);
  read_worker_settings(reader, line, config);
  read_ending_settings(reader, line.read_file, config);
  read_log_settings(reader, config);
  return config;
}

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
    reader.report_error(
        workers,
        "=gpu: no GPU on this machine (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES hides "
        "them)\n  hint: use a number, or auto");
    return 1;
  }
  if (value == "xpu") {
    reader.report_error(workers, "=xpu: cpprun counts NVIDIA devices only\n  hint: use a number");
    return 1;
  }
  const auto count = whole_number(value);
  if (count && *count >= 1 && *count <= bounds::local_world_size_max) return *count;
  reader.report_error(workers, "={} is neither a number from 1 to {} nor cpu, gpu or auto", value,
                      bounds::local_world_size_max);
  return 1;
}

ProgramKind program_kind(SettingReader& reader) {
  const auto& flags = reader.flags();
  if (is_on(flags.run_path)) {
    // It overrides the others, as in torchrun. There it saves a Python start per worker by forking
    // the launcher. cpprun has no Python to fork.
    reader.note(flags.run_path, ": every worker runs the script in its own Python process");
    return ProgramKind::python;
  }
  if (is_on(flags.module) && is_on(flags.no_python)) {
    reader.report_error(flags.module, " and {} exclude each other\n  hint: use only one",
                        flags.no_python.source);
  }
  if (is_on(flags.module)) return ProgramKind::module;
  return is_on(flags.no_python) ? ProgramKind::no_python : ProgramKind::automatic;
}

void check_start_method(SettingReader& reader) {
  const auto& method = reader.flags().start_method;
  if (method.value && *method.value != "spawn") {
    reader.note(method, " has no effect: every worker is started as a new program");
  }
}

void check_monitor_interval(SettingReader& reader) {
  constexpr double torchruns_default = 0.1;
  const auto& interval = reader.flags().monitor_interval;
  if (!interval.value || *interval.value == torchruns_default) return;
  reader.note(interval, " has no effect: cpprun does not poll; the kernel notifies it at once");
}

void check_exit_barrier_timeout(SettingReader& reader) {
  const auto& timeout = reader.flags().exit_barrier_timeout;
  if (timeout.value) reader.note(timeout, " has no effect: cpprun jobs end without a barrier");
}

// HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES must list a device for each worker.
void read_virtual_local_rank(SettingReader& reader, Config& config) {
  const auto& flag = reader.flags().virtual_local_rank;
  config.virtual_local_rank = is_on(flag);
  const auto [variable, list] = visible_devices(reader.environment());
  if (!config.virtual_local_rank || list == nullptr) return;
  const auto devices = listed_devices(*list).size();
  if (devices < static_cast<std::size_t>(config.local_world_size)) {
    reader.report_error(flag, " gives each of {} workers its own device, but {}={} lists only {}",
                        config.local_world_size, variable, *list, devices);
  }
}

// As torch.distributed.launch did: passes --local-rank to scripts that do not read LOCAL_RANK.
void read_local_rank_flag(SettingReader& reader, Config& config) {
  const auto& wanted = reader.flags().pass_local_rank;
  if (!wanted.value) return;
  if (is_on(reader.flags().use_env)) {
    reader.report_error(wanted, " and {} exclude each other\n  hint: use only one",
                        reader.flags().use_env.source);
  }
  const auto& name = *wanted.value;
  const bool plain = !name.empty() && name.front() != '-' &&
                     std::all_of(name.begin(), name.end(), [](unsigned char byte) {
                       return std::isalnum(byte) || byte == '-' || byte == '_';
                     });
  if (!plain) {
    return reader.report_error(
        wanted, "={} is not an option name without dashes, such as local-rank or local_rank", name);
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
  check_exit_barrier_timeout(reader);
  read_virtual_local_rank(reader, config);
  read_local_rank_flag(reader, config);
  if (const auto& binding = flags.numa_binding.value) {
    config.numa_binding = numa_binding_named(*binding);
  }
  config.warm_modules = flags.warm.value.value_or(std::vector<std::string>{});
}

namespace {

// Splits at commas; a double comma is a literal comma. An empty word would match every line and is
// dropped.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  while (!text.empty()) {
    const bool comma = text.front() == ',';
    const bool doubled = text.starts_with(",,");
    if (comma && !doubled) {
      words.emplace_back();
    } else {
      words.back() += text.front();
    }
    text.remove_prefix(doubled ? 2 : 1);
  }
  std::erase(words, "");
  return words;
}

std::vector<std::string> duplicates(SettingReader& reader, const Flag<std::string>& flag, bool teed,
                                    const LogOptions& logs) {
  auto words = words_of(flag.value.value_or(""));
  if (words.empty()) return words;
  if (logs.disabled) {
    reader.report_error(flag, " writes to a file, but {}=/dev/null disables log files",
                        reader.flags().log_dir.source);
  } else if (!teed) {
    reader.note(flag, " has no effect: it applies only to streams that --tee selects");
  }
  return words;
}

bool any_teed(const StreamChoices& tee, bool StreamChoice::*stream) {
  if (tee.by_local_rank.empty()) return tee.all.*stream;
  return std::any_of(tee.by_local_rank.begin(), tee.by_local_rank.end(),
                     [&](const auto& entry) { return entry.second.*stream; });
}

// The flag names a Python class, which cpprun cannot load.
void check_logs_specs(SettingReader& reader) {
  const auto& specs = reader.flags().logs_specs;
  if (!specs.value || *specs.value == "default") return;
  reader.report_error(
      specs,
      "={} names a Python class, which cpprun cannot load\n  hint: remove the flag; the layout of "
      "the logs is the same as with torchrun",
      *specs.value);
}

bool wants_stderr_inherited(SettingReader& reader) {
  const auto& kind = reader.flags().stderr_kind;
  if (!kind.value || *kind.value == "pass") return false;
  if (*kind.value != "inherit") {
    reader.report_error(
        kind,
        "={} is invalid; expected pass (output passes through cpprun, so that the report can quote "
        "it) or inherit (workers write directly to cpprun's stderr)",
        *kind.value);
  }
  return true;
}

// Compares the spelled paths. Streams such as /dev/stderr may be shared.
bool is_one_file(std::string_view one, std::string_view other) {
  for (auto* const each : {&one, &other}) {
    while (each->starts_with("./")) each->remove_prefix(2);
  }
  return !one.empty() && !one.starts_with("/dev/") && one == other;
}

// torchrun has two names for a handler that does nothing, and packages can add others.
bool wants_events_on_console(SettingReader& reader) {
  const auto& handler = reader.flags().event_log_handler;
  const auto value = handler.value.value_or("null");
  if (value == "null" || value == "dynamic_rendezvous") return false;
  if (value == "console") return true;
  reader.report_error(
      handler,
      "={} is not supported; expected console (events on stderr) or null (no events)\n"
      "  hint: use --events=FILE to write events to a file",
      value);
  return false;
}

LogLevel log_level(SettingReader& reader) {
  const auto& flag = reader.flags().log_level;
  if (!flag.value) return LogLevel::info;
  const auto level = log_level_of(*flag.value);
  if (!level)
    reader.report_error(flag, "={} is not a log level\n  hint: use {}", *flag.value,
                        log_level_names);
  return level.value_or(LogLevel::info);
}

LogTimes log_times(const std::optional<std::string>& value) {
  if (value == "always") return LogTimes::always;
  return value == "never" ? LogTimes::never : LogTimes::automatic;
}

}  // namespace

void read_log_settings(SettingReader& reader, Config& config) {
  const auto& flags = reader.flags();
  auto& logs = config.logs;
  logs.disabled = flags.log_dir.value == "/dev/null";
  const bool is_named = flags.log_dir.value && !flags.log_dir.value->empty();
  if (is_named && !logs.disabled) logs.root = flags.log_dir.value;
  logs.attempts_kept = flags.log_keep.value.value_or(0);
  logs.file_bytes_max = flags.log_max_bytes.value.value_or(0);
  logs.redirects = flags.redirects.value.value_or(StreamChoices{});
  logs.tee = flags.tee.value.value_or(StreamChoices{});
  // torchrun's defaults are an empty list and an empty template.
  const auto& ranks = flags.local_ranks_filter.value;
  if (ranks && !ranks->empty()) logs.console_ranks = ranks;
  const auto& prefix = flags.log_line_prefix_template.value;
  if (prefix && !prefix->empty()) logs.prefix_template = prefix;
  logs.duplicate_out = duplicates(reader, flags.duplicate_stdout_filters,
                                  any_teed(logs.tee, &StreamChoice::out), logs);
  logs.duplicate_err = duplicates(reader, flags.duplicate_stderr_filters,
                                  any_teed(logs.tee, &StreamChoice::err), logs);
  logs.report_file = flags.report.value.value_or("");
  logs.events_file = flags.events.value.value_or("");
  if (is_one_file(logs.report_file, logs.events_file)) {
    reader.report_error(flags.events, "={} is also the file of --report\n  hint: use two files",
                        logs.events_file);
  }
  logs.stderr_inherited = wants_stderr_inherited(reader);
  logs.events_on_console = wants_events_on_console(reader);
  logs.level = log_level(reader);
  logs.times = log_times(flags.log_time.value);
  check_logs_specs(reader);
}

namespace {

// A scheduler that sends SIGTERM to a whole node sends SIGKILL after its own timeout. cpprun must
// end before that to write its report. A pod cannot learn the timeout. Slurm's is in its
// configuration, if the node has that. These are the defaults, 30 s each (KillWait,
// terminationGracePeriodSeconds).
struct OuterEnd {
  std::string_view variable;  // set by the scheduler in everything it runs
  std::string_view name;
  std::chrono::seconds timeout;
};
constexpr std::array<OuterEnd, 2> outer_ends = {{
    {"SLURM_JOB_ID", "Slurm", std::chrono::seconds(30)},
    {"KUBERNETES_SERVICE_HOST", "Kubernetes", std::chrono::seconds(30)},
}};
// Reserved within that timeout for SIGKILL, cleanup and the report.
constexpr auto time_to_report = std::chrono::seconds(5);

constexpr std::string_view default_signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

// The grace period for workers within a scheduler's timeout. If the timeout is short, they get
// half.
Duration grace_within(std::chrono::seconds timeout) {
  return std::max<Duration>(timeout - time_to_report, timeout / 2);
}

void read_grace(SettingReader& reader, const TextFile& read_file, Config& config) {
  const auto kill_wait = slurm_kill_wait(reader.environment(), read_file);
  const auto& seconds = reader.flags().shutdown_timeout;
  if (seconds.value) {
    config.grace = std::chrono::seconds(*seconds.value);
    if (kill_wait && config.grace >= kill_wait->value) {
      reader.note(seconds,
                  "={} is not below Slurm's own timeout ({}), so Slurm may kill cpprun before the "
                  "report is written",
                  *seconds.value, kill_wait->source);
    }
    return;
  }
  for (const auto& outer : outer_ends) {
    if (find_variable(reader.environment(), outer.variable) == nullptr) continue;
    const bool is_told = kill_wait && outer.name == "Slurm";
    config.grace = std::min(config.grace, grace_within(is_told ? kill_wait->value : outer.timeout));
  }
}

void read_restarts(SettingReader& reader, Config& config) {
  const auto& flags = reader.flags();
  const RestartBudgets budgets = flags.max_restarts.value.value_or(RestartBudgets{});
  config.restarts.max = budgets.whole_job;
  config.restarts.budgets = budgets.causes;
  config.restarts.backoff = flags.restart_backoff.value.value_or(Duration{});
  config.restarts.window = flags.restart_window.value.value_or(Duration{});
  config.restarts.final_codes = flags.no_restart_codes.value.value_or(std::vector<int>{});
  config.restarts.free_codes = flags.free_restart_codes.value.value_or(std::vector<int>{});
  config.restarts.fruitless_max = flags.max_no_progress.value.value_or(0);
  config.restarts.host_limit = flags.max_host_failures.value.value_or(HostLimit{});
  for (const int code : config.restarts.free_codes) {
    if (std::ranges::find(config.restarts.final_codes, code) == config.restarts.final_codes.end()) {
      continue;
    }
    reader.report_error(
        flags.free_restart_codes,
        " and --no-restart-codes both contain {}\n  hint: remove it from one of them",
        code < 0 ? std::string(signal_name(-code)) : std::to_string(code));
  }
  const auto check = [&](const auto& flag) {
    if (config.restarts.may_restart() || !flag.given) return;
    reader.note(flag, " has no effect without --max-restarts");
  };
  const auto& scope = flags.restart_scope;
  if (scope.value == "worker") {
    config.restarts.scope = RestartScope::worker;
    check(scope);
    const auto& timeout = flags.hang_timeout;
    if (timeout.value && *timeout.value > Duration{}) {
      reader.report_error(timeout,
                          " finds hangs of a whole job, and {} is for independent workers\n  hint: "
                          "use --beat-timeout, which checks each worker",
                          "--restart-scope=worker");
    }
    // Independent workers make progress of their own.
    const auto& fruitless = flags.max_no_progress;
    if (fruitless.value.value_or(0) > 0) {
      reader.report_error(fruitless,
                          " measures the progress of a whole job, and {} is for independent "
                          "workers\n  hint: use --restart-window, which limits how often they fail",
                          "--restart-scope=worker");
    }
  } else if (scope.value && *scope.value != "job") {
    reader.report_error(scope, "=\"{}\" is invalid; expected job or worker", *scope.value);
  }
  check(flags.restart_backoff);
  check(flags.restart_window);
  check(flags.no_restart_codes);
  check(flags.max_no_progress);
  check(flags.restart_state);
  config.restart_state_file = flags.restart_state.value.value_or("");
  const auto& on_failure = flags.on_failure;
  config.restarts.reconfigures = on_failure.value == "reconfigure";
  if (on_failure.value && !config.restarts.reconfigures && on_failure.value != "restart") {
    reader.report_error(on_failure, "=\"{}\" is invalid; expected restart or reconfigure",
                        *on_failure.value);
  }
  if (config.restarts.reconfigures && config.restarts.scope == RestartScope::worker) {
    reader.report_error(on_failure,
                        "=reconfigure and {} exclude each other\n  hint: use one of them",
                        "--restart-scope=worker");
  }
}

void read_signals(SettingReader& reader, Config& config) {
  config.signals_text =
      reader.flags().signals_to_handle.value.value_or(std::string(default_signals));
  for (auto name : split(config.signals_text, ',')) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    const auto signal = signal_number(name);
    // As torchrun does, warn about an unknown signal name instead of failing.
    if (!signal || *signal == SIGKILL || *signal == SIGSTOP || *signal == SIGCHLD) {
      reader.note(fmt::format("--signals-to-handle: ignoring {}, which cannot be handled", name));
    } else if (std::find(config.signals.begin(), config.signals.end(), *signal) ==
               config.signals.end()) {
      config.signals.push_back(*signal);
    }
  }
  // Schedulers send one of these before preempting a job, so that it can save. By default they
  // would end cpprun.
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    if (std::ranges::find(config.signals, signal) == config.signals.end()) {
      config.notices.push_back(signal);
    }
  }
}

void read_scopes(SettingReader& reader, Config& config) {
  const auto& scope = reader.flags().signal_scope;
  if (scope.value == "group") {
    config.signal_scope = SignalScope::group;
  } else if (scope.value && scope.value != "process") {
    reader.report_error(scope, "=\"{}\" is invalid; expected process or group", *scope.value);
  }
  const auto& stragglers = reader.flags().stragglers;
  if (stragglers.value == "kill") {
    config.stragglers = Stragglers::kill;
  } else if (stragglers.value == "leave") {
    config.stragglers = Stragglers::leave;
  } else if (stragglers.value && stragglers.value != "wait") {
    reader.report_error(stragglers, "=\"{}\" is invalid; expected wait, kill or leave",
                        *stragglers.value);
  }
}

void read_hangs(SettingReader& reader, Config& config) {
  const auto& timeout = reader.flags().hang_timeout.value;
  if (timeout && *timeout > Duration{}) config.hang_timeout = *timeout;
  const auto& probe = reader.flags().probe;
  if (!probe.value || *probe.value == "auto") return;
  if (*probe.value == "on") {
    config.probe = Probe::on;
  } else if (*probe.value == "off") {
    config.probe = Probe::off;
  } else {
    reader.report_error(probe, "=\"{}\" is invalid; expected auto, on or off", *probe.value);
  }
}

void read_status_access(SettingReader& reader, Config& config) {
  const auto& flag = reader.flags().status_access;
  if (!flag.value) return;
  const auto access = status_access(*flag.value);
  if (!access) reader.report_error(flag, "={} is not one of {}", *flag.value, status_access_names);
  config.status_access = access.value_or(config.status_access);
}

}  // namespace

void read_ending_settings(SettingReader& reader, const TextFile& read_file, Config& config) {
  config.beat_timeout = reader.flags().beat_timeout.value;
  read_hangs(reader, config);
  config.preemption_notice = reader.flags().preemption_notice.value.value_or("");
  read_restarts(reader, config);
  read_grace(reader, read_file, config);
  read_scopes(reader, config);
  read_signals(reader, config);
  read_status_access(reader, config);
}

namespace {

bool is_required(SettingReader& reader) {
  const auto required = secret_required(reader.environment());
  if (!required) reader.report_sentence(reader.flags().secret_file, required.error().reason);
  return required.value_or(false);
}

StoreWay store_way(SettingReader& reader) {
  const auto& kind = reader.flags().store;
  if (!kind.value) return StoreWay::automatic;
  if (*kind.value == "local") return StoreWay::local;
  if (*kind.value != "direct") {
    reader.report_error(kind,
                        "={} is invalid; expected local or direct\n"
                        "  hint: local: workers reach the store through their node's cpprun "
                        "(default with a secret, several cpprunds or etcd); direct: workers "
                        "connect to the master (default in all other cases)",
                        *kind.value);
  }
  return StoreWay::direct;
}

}  // namespace

void read_secret_settings(SettingReader& reader, Config& config) {
  const auto& flags = reader.flags();
  config.secret_file = flags.secret_file.value.value_or("");
  config.insecure = is_on(flags.insecure);
  config.store = store_way(reader);
  config.require_secret = is_required(reader);
  if (!config.insecure) return;
  if (config.require_secret) {
    reader.report_error(
        flags.insecure,
        " contradicts CPPRUN_REQUIRE_SECRET=1, which rejects a job without a secret\n  hint: use "
        "only one of them");
  } else if (!config.secret_file.empty()) {
    reader.note(flags.insecure, " has no effect: {} sets a secret", flags.secret_file.source);
  }
}

}  // namespace cpprun
