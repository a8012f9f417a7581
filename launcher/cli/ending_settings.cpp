// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/ending_settings.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "launcher/scheduler/slurm_conf.h"
#include "proto/signal_names.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// Who sends TERM to a whole node insists with KILL after a while of its own, and what ends later
// than that ends without a report. How long is not told to a pod, and stands in Slurm's
// configuration, where a node has that; these are the defaults, 30 s each (KillWait,
// terminationGracePeriodSeconds).
struct OuterEnd {
  std::string_view variable;  // set by it in whatever it runs
  std::string_view name;
  std::chrono::seconds patience;
};
constexpr std::array<OuterEnd, 2> outer_ends = {{
    {"SLURM_JOB_ID", "Slurm", std::chrono::seconds(30)},
    {"KUBERNETES_SERVICE_HOST", "Kubernetes", std::chrono::seconds(30)},
}};
// What is left of that for KILL, the sweep and the report.
constexpr auto time_to_report = std::chrono::seconds(5);

constexpr std::string_view default_signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";

// What is left of somebody's patience, if it is little, is shared with the workers.
Duration grace_within(std::chrono::seconds patience) {
  return std::max<Duration>(patience - time_to_report, patience / 2);
}

void read_grace(SettingReader& reader, const TextFile& read_file, Config& config) {
  const auto kill_wait = slurm_kill_wait(reader.environment(), read_file);
  const auto& seconds = reader.flags().shutdown_timeout;
  if (seconds.value) {
    config.grace = std::chrono::seconds(*seconds.value);
    if (kill_wait && config.grace >= kill_wait->value) {
      reader.note(seconds,
                  "={} is no less than Slurm's own patience ({}): its KILL may come before the "
                  "report is written",
                  *seconds.value, kill_wait->source);
    }
    return;
  }
  for (const auto& outer : outer_ends) {
    if (find_variable(reader.environment(), outer.variable) == nullptr) continue;
    const bool is_told = kill_wait && outer.name == "Slurm";
    config.grace =
        std::min(config.grace, grace_within(is_told ? kill_wait->value : outer.patience));
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
    reader.complain(flags.free_restart_codes,
                    " has {} as well as --no-restart-codes; leave one out",
                    code < 0 ? std::string(signal_name(-code)) : std::to_string(code));
  }
  const auto check = [&](const auto& flag) {
    if (config.restarts.may_restart() || !flag.given) return;
    reader.note(flag, " has no effect without --max-restarts");
  };
  check(flags.restart_backoff);
  check(flags.restart_window);
  check(flags.no_restart_codes);
  check(flags.max_no_progress);
  check(flags.restart_state);
  config.restart_state_file = flags.restart_state.value.value_or("");
}

void read_signals(SettingReader& reader, Config& config) {
  config.signals_text =
      reader.flags().signals_to_handle.value.value_or(std::string(default_signals));
  for (auto name : split(config.signals_text, ',')) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    const auto signal = signal_number(name);
    // As torchrun: a name that this system does not know is worth a word, not the job.
    if (!signal || *signal == SIGKILL || *signal == SIGSTOP || *signal == SIGCHLD) {
      reader.note(fmt::format("{} cannot be handled and is left out of --signals-to-handle", name));
    } else if (std::find(config.signals.begin(), config.signals.end(), *signal) ==
               config.signals.end()) {
      config.signals.push_back(*signal);
    }
  }
  // Whoever preempts a job sends one of these before, so that it can save. They would end cpprun.
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
    reader.complain(scope, "=\"{}\" is invalid; expected process or group", *scope.value);
  }
  const auto& stragglers = reader.flags().stragglers;
  if (stragglers.value == "kill") {
    config.stragglers = Stragglers::kill;
  } else if (stragglers.value == "leave") {
    config.stragglers = Stragglers::leave;
  } else if (stragglers.value && stragglers.value != "wait") {
    reader.complain(stragglers, "=\"{}\" is invalid; expected wait, kill or leave",
                    *stragglers.value);
  }
}

void read_status_access(SettingReader& reader, Config& config) {
  const auto& flag = reader.flags().status_access;
  if (!flag.value) return;
  const auto access = status_access(*flag.value);
  if (!access) reader.complain(flag, "={} is none of {}", *flag.value, status_access_names);
  config.status_access = access.value_or(config.status_access);
}

}  // namespace

void read_ending_settings(SettingReader& reader, const TextFile& read_file, Config& config) {
  config.beat_timeout = reader.flags().beat_timeout.value;
  config.preemption_notice = reader.flags().preemption_notice.value.value_or("");
  read_restarts(reader, config);
  read_grace(reader, read_file, config);
  read_scopes(reader, config);
  read_signals(reader, config);
  read_status_access(reader, config);
}

}  // namespace cpprun
