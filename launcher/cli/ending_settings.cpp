// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/ending_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>

#include "launcher/signal_names.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// Who sends TERM to a whole node insists with KILL after a while of its own, and what ends later
// than that ends without a report. How long is not told to anybody on the node; these are the
// defaults, 30 s each (KillWait, terminationGracePeriodSeconds).
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

void read_grace(SettingReader& reader, Config& config) {
  constexpr std::string_view grace_variable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  if (const auto seconds = reader.number("shutdown-timeout", 0, any_count_max)) {
    config.grace = std::chrono::seconds(*seconds);
  } else if (const auto* text = find_variable(reader.environment(), grace_variable)) {
    const auto given = whole_number(*text);
    if (given && *given >= 0) config.grace = std::chrono::seconds(*given);
    if (!given || *given < 0) {
      reader.complain("{}={} is not a number of seconds from 0", grace_variable, *text);
    }
  } else {
    for (const auto& outer : outer_ends) {
      if (find_variable(reader.environment(), outer.variable) == nullptr) continue;
      config.grace = std::min<Duration>(config.grace, outer.patience - time_to_report);
    }
  }
}

// Up to this many seconds fit the milliseconds in which nodes tell them each other.
constexpr double policy_seconds_max = 2'000'000;

Duration read_seconds(SettingReader& reader, std::string_view flag) {
  const auto* setting = reader.find(flag);
  if (setting == nullptr) return {};
  double seconds = 0;
  const auto text = trimmed(setting->value);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || !(seconds >= 0.001) || seconds > policy_seconds_max) {
    reader.complain("{}={} is no number of seconds from 0.001 to {}, as 30 or 0.5", setting->source,
                    text, static_cast<int>(policy_seconds_max));
    return {};
  }
  return std::chrono::round<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

// "2,SIGSEGV": exit codes as they are, signals as negative numbers.
void read_final_codes(SettingReader& reader, Config& config) {
  constexpr int exit_code_max = 255;
  const auto* setting = reader.find("no-restart-codes");
  if (setting == nullptr) return;
  std::vector<int>& codes = config.no_restart_codes;
  for (const auto part : split(setting->value, ',')) {
    const auto code = whole_number(part);
    const auto signal = signal_number(part);
    if (signal) {
      codes.push_back(-*signal);
    } else if (code && *code >= 1 && *code <= exit_code_max) {
      codes.push_back(*code);
    } else {
      return reader.complain(
          "{}={}: \"{}\" is neither an exit code from 1 to {} nor a signal, as SIGSEGV",
          setting->source, setting->value, part, exit_code_max);
    }
  }
  // The same on every node in whatever order it was typed.
  std::ranges::sort(codes);
  codes.erase(std::ranges::unique(codes).begin(), codes.end());
  if (codes.size() > bounds::no_restart_codes_max) {
    reader.complain("{}={} lists {} codes; there is room for {}", setting->source, setting->value,
                    codes.size(), bounds::no_restart_codes_max);
  }
}

void read_restarts(SettingReader& reader, Config& config) {
  config.restarts_max = reader.number("max-restarts", 0, any_count_max).value_or(0);
  config.restart_backoff = read_seconds(reader, "restart-backoff");
  config.restart_window = read_seconds(reader, "restart-window");
  read_final_codes(reader, config);
  for (const char* flag : {"restart-backoff", "restart-window", "no-restart-codes"}) {
    if (config.restarts_max > 0 || !reader.has(flag)) continue;
    reader.note("{} has no effect without --max-restarts", reader.source(flag));
  }
}

void read_signals(SettingReader& reader, Config& config) {
  const auto* wanted = reader.find("signals-to-handle");
  config.signals_text = wanted == nullptr ? std::string(default_signals) : wanted->value;
  for (auto name : split(config.signals_text, ',')) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    const auto signal = signal_number(name);
    // As torchrun: a name that this system does not know is worth a word, not the job.
    if (!signal || *signal == SIGKILL || *signal == SIGSTOP || *signal == SIGCHLD) {
      reader.note("{} cannot be handled and is left out of --signals-to-handle", name);
    } else if (std::find(config.signals.begin(), config.signals.end(), *signal) ==
               config.signals.end()) {
      config.signals.push_back(*signal);
    }
  }
}

}  // namespace

void read_ending_settings(SettingReader& reader, Config& config) {
  read_restarts(reader, config);
  read_grace(reader, config);
  read_signals(reader, config);
}

}  // namespace cpprun
