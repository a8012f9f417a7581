// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/log_settings.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

StreamChoices streams(SettingReader& reader, std::string_view flag) {
  const auto* setting = reader.find(flag);
  if (setting == nullptr) return {};
  auto parsed = parse_stream_choices(setting->value);
  if (!parsed) reader.complain("{}: {}", setting->source, parsed.error().reason);
  return parsed.value_or(StreamChoices{});
}

std::vector<int> ranks(SettingReader& reader, const Setting& setting) {
  std::vector<int> result;
  for (const auto part : split(setting.value, ',')) {
    const auto rank = whole_number(part);
    if (!rank || *rank < 0) {
      reader.complain("{}={} is not a list of local ranks, as 0,2", setting.source, setting.value);
      return {};
    }
    result.push_back(*rank);
  }
  return result;
}

// Words between commas; two commas are one that belongs to a word. An empty word would be found in
// every line, which nobody means, and is dropped.
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

std::vector<std::string> duplicates(SettingReader& reader, std::string_view flag, bool teed,
                                    const LogOptions& logs) {
  const auto* setting = reader.find(flag);
  if (setting == nullptr) return {};
  auto words = words_of(setting->value);
  if (words.empty()) return words;
  if (logs.disabled) {
    reader.complain("{} needs a folder for its file, and {}=/dev/null says that there is none",
                    setting->source, reader.source("log-dir"));
  } else if (!teed) {
    reader.note("{} has no effect: it looks at lines that --tee brings to the console",
                setting->source);
  }
  return words;
}

bool any_teed(const StreamChoices& tee, bool StreamChoice::*stream) {
  if (tee.by_local_rank.empty()) return tee.everybody.*stream;
  return std::any_of(tee.by_local_rank.begin(), tee.by_local_rank.end(),
                     [&](const auto& entry) { return entry.second.*stream; });
}

std::string file(SettingReader& reader, std::string_view flag) {
  const auto* setting = reader.find(flag);
  if (setting == nullptr) return "";
  if (setting->value.empty()) reader.complain("{} needs the name of a file", setting->source);
  return setting->value;
}

// It names a thing that other people's Python brings along.
void check_logs_specs(SettingReader& reader) {
  const auto* specs = reader.find("logs-specs");
  if (specs != nullptr && specs->value != "default") {
    reader.complain(
        "{}={} names a Python class, and there is no Python in cpprun; leave it out, torchrun's "
        "own layout of the logs is there",
        specs->source, specs->value);
  }
}

// "64M": bytes, or that many of a thousand and twenty-four of them, and so on.
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  text = trimmed(text);
  int shift = 0;
  if (!text.empty()) {
    const auto unit = std::string_view("KMGT").find(text.back());
    if (unit != std::string_view::npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = whole_number(text);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*number) << shift;
}

void read_limits(SettingReader& reader, LogOptions& logs) {
  if (const auto kept = reader.number("log-keep", 1, any_count_max)) logs.attempts_kept = *kept;
  const auto* limit = reader.find("log-max-bytes");
  if (limit == nullptr) return;
  const auto bytes = bytes_of(limit->value);
  if (bytes && *bytes >= bounds::log_file_bytes_least) {
    logs.file_bytes_max = *bytes;
  } else {
    reader.complain("{}={} is no number of bytes from {}, as 500000 or 64M", limit->source,
                    limit->value, bounds::log_file_bytes_least);
  }
}

bool wants_stderr_inherited(SettingReader& reader) {
  const auto* kind = reader.find("stderr");
  if (kind == nullptr || kind->value == "pass") return false;
  if (kind->value != "inherit") {
    reader.complain(
        "{}={} is neither pass (the workers' stderr goes through cpprun where it is no terminal, "
        "so that the report knows their last words) nor inherit (they write to it themselves)",
        kind->source, kind->value);
  }
  return true;
}

// torchrun knows two names for nothing at all, and lets packages bring others along.
bool wants_events_on_console(SettingReader& reader) {
  const auto* handler = reader.find("event-log-handler");
  if (handler == nullptr || handler->value == "null" || handler->value == "dynamic_rendezvous") {
    return false;
  }
  if (handler->value == "console") return true;
  reader.complain(
      "{}={} is not there: console writes what happens to stderr, null nothing; others are "
      "Python packages, and --events=FILE writes to a file",
      handler->source, handler->value);
  return false;
}

LogLevel log_level(SettingReader& reader) {
  const auto* flag = reader.find("log-level");
  const auto* variable = find_variable(reader.environment(), log_level_variable);
  const bool by_variable = flag == nullptr && variable != nullptr && !variable->empty();
  if (flag == nullptr && !by_variable) return LogLevel::info;
  const auto& value = by_variable ? *variable : flag->value;
  const auto level = log_level_of(value);
  if (!level) {
    reader.complain("{}={} is no level; it is {}", by_variable ? log_level_variable : flag->source,
                    value, log_level_names);
  }
  return level.value_or(LogLevel::info);
}

LogTimes log_times(SettingReader& reader) {
  const auto* flag = reader.find("log-time");
  if (flag == nullptr || flag->value == "auto") return LogTimes::automatic;
  if (flag->value == "always") return LogTimes::always;
  if (flag->value != "never") {
    reader.complain("{}={} is neither auto, always nor never", flag->source, flag->value);
  }
  return LogTimes::never;
}

}  // namespace

void read_log_settings(SettingReader& reader, Config& config) {
  auto& logs = config.logs;
  if (const auto* folder = reader.find("log-dir")) {
    logs.disabled = folder->value == "/dev/null";
    if (!logs.disabled) logs.root = folder->value;
  }
  read_limits(reader, logs);
  logs.redirects = streams(reader, "redirects");
  logs.tee = streams(reader, "tee");
  // Empty is torchrun's default.
  if (const auto* filter = reader.find("local-ranks-filter"); filter && !filter->value.empty()) {
    logs.console_ranks = ranks(reader, *filter);
  }
  const auto* prefix = find_variable(reader.environment(), "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (prefix != nullptr) logs.prefix_template = *prefix;
  logs.duplicate_out =
      duplicates(reader, "duplicate-stdout-filters", any_teed(logs.tee, &StreamChoice::out), logs);
  logs.duplicate_err =
      duplicates(reader, "duplicate-stderr-filters", any_teed(logs.tee, &StreamChoice::err), logs);
  logs.report_file = file(reader, "report");
  logs.events_file = file(reader, "events");
  logs.stderr_inherited = wants_stderr_inherited(reader);
  logs.events_on_console = wants_events_on_console(reader);
  logs.level = log_level(reader);
  logs.times = log_times(reader);
  check_logs_specs(reader);
}

}  // namespace cpprun
