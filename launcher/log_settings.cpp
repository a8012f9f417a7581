#include "launcher/log_settings.h"

#include <algorithm>

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

void refuse_unless(SettingReader& reader, std::string_view flag,
                   std::initializer_list<std::string_view> harmless) {
  const auto* setting = reader.find(flag);
  if (setting == nullptr) return;
  if (std::find(harmless.begin(), harmless.end(), setting->value) != harmless.end()) return;
  reader.complain("{}={} is not there yet; leave it out", setting->source, setting->value);
}

}  // namespace

void read_log_settings(SettingReader& reader, Config& config) {
  auto& logs = config.logs;
  if (const auto* folder = reader.find("log-dir")) {
    logs.disabled = folder->value == "/dev/null";
    if (!logs.disabled) logs.root = folder->value;
  }
  logs.redirects = streams(reader, "redirects");
  logs.tee = streams(reader, "tee");
  if (const auto* filter = reader.find("local-ranks-filter")) {
    logs.console_ranks = ranks(reader, *filter);
  }
  const auto* prefix = find_variable(reader.environment(), "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  if (prefix != nullptr) logs.prefix_template = *prefix;
  refuse_unless(reader, "logs-specs", {"default"});
  refuse_unless(reader, "event-log-handler", {"null", "dynamic_rendezvous"});
  refuse_unless(reader, "duplicate-stdout-filters", {""});
  refuse_unless(reader, "duplicate-stderr-filters", {""});
}

}  // namespace cpprun
