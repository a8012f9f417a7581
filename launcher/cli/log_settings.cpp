// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/log_settings.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace cpprun {

namespace {

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

std::vector<std::string> duplicates(SettingReader& reader, const Flag<std::string>& flag, bool teed,
                                    const LogOptions& logs) {
  auto words = words_of(flag.value.value_or(""));
  if (words.empty()) return words;
  if (logs.disabled) {
    reader.complain(flag, " needs a folder for its file, and {}=/dev/null says that there is none",
                    reader.flags().log_dir.source);
  } else if (!teed) {
    reader.note(flag, " has no effect: it looks at lines that --tee brings to the console");
  }
  return words;
}

bool any_teed(const StreamChoices& tee, bool StreamChoice::*stream) {
  if (tee.by_local_rank.empty()) return tee.everybody.*stream;
  return std::any_of(tee.by_local_rank.begin(), tee.by_local_rank.end(),
                     [&](const auto& entry) { return entry.second.*stream; });
}

// It names a thing that other people's Python brings along.
void check_logs_specs(SettingReader& reader) {
  const auto& specs = reader.flags().logs_specs;
  if (!specs.value || *specs.value == "default") return;
  reader.complain(specs,
                  "={} names a Python class, and there is no Python in cpprun; leave it out, "
                  "torchrun's own layout of the logs is there",
                  *specs.value);
}

bool wants_stderr_inherited(SettingReader& reader) {
  const auto& kind = reader.flags().stderr_kind;
  if (!kind.value || *kind.value == "pass") return false;
  if (*kind.value != "inherit") {
    reader.complain(
        kind,
        "={} is neither pass (the workers' output passes through cpprun, so that the report has "
        "its last lines) nor inherit (they write to cpprun's own stderr)",
        *kind.value);
  }
  return true;
}

// As they are spelled, seen from here; streams (/dev/stderr) may be shared.
bool is_one_file(std::string_view one, std::string_view other) {
  for (auto* const each : {&one, &other}) {
    while (each->starts_with("./")) each->remove_prefix(2);
  }
  return !one.empty() && !one.starts_with("/dev/") && one == other;
}

// torchrun knows two names for nothing at all, and lets packages bring others along.
bool wants_events_on_console(SettingReader& reader) {
  const auto& handler = reader.flags().event_log_handler;
  const auto value = handler.value.value_or("null");
  if (value == "null" || value == "dynamic_rendezvous") return false;
  if (value == "console") return true;
  reader.complain(handler,
                  "={} is not there: console writes what happens to stderr, null nothing; others "
                  "are Python packages, and --events=FILE writes to a file",
                  value);
  return false;
}

LogLevel log_level(SettingReader& reader) {
  const auto& flag = reader.flags().log_level;
  if (!flag.value) return LogLevel::info;
  const auto level = log_level_of(*flag.value);
  if (!level) reader.complain(flag, "={} is not a level; use {}", *flag.value, log_level_names);
  return level.value_or(LogLevel::info);
}

LogTimes log_times(SettingReader& reader) {
  const auto& flag = reader.flags().log_time;
  const auto value = flag.value.value_or("auto");
  if (value == "auto") return LogTimes::automatic;
  if (value == "always") return LogTimes::always;
  if (value != "never") reader.complain(flag, "={} is neither auto, always nor never", value);
  return LogTimes::never;
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
  // An empty list and an empty template are torchrun's defaults.
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
    reader.complain(flags.events, "={} is the file of --report as well; give each one of its own",
                    logs.events_file);
  }
  logs.stderr_inherited = wants_stderr_inherited(reader);
  logs.events_on_console = wants_events_on_console(reader);
  logs.level = log_level(reader);
  logs.times = log_times(reader);
  check_logs_specs(reader);
}

}  // namespace cpprun
