#include "launcher/ending_settings.h"

#include <algorithm>
#include <csignal>

#include "launcher/signal_names.h"

namespace cpprun {

namespace {

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
  config.restarts_max = reader.number("max-restarts", 0, any_count_max).value_or(0);
  read_grace(reader, config);
  read_signals(reader, config);
}

}  // namespace cpprun
