// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/host_list.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "proto/host_list.h"
#include "proto/link/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// Why the text is not a host name; empty if it is. A remote shell must not take it for an option,
// nor a remote command line for two words.
std::string objection(std::string_view name) {
  if (name.empty()) return "empty host name";
  const std::string shown = plain_line(name, bounds::name_shown_bytes_max);
  if (name.front() == '-') return fmt::format("\"{}\" is an option, not a host", shown);
  if (name.size() > bounds::host_bytes_max) {
    return fmt::format("host name \"{}\" has {} bytes; the maximum is {}", shown, name.size(),
                       bounds::host_bytes_max);
  }
  for (const char byte : name) {
    const bool good = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                      (byte >= '0' && byte <= '9') ||
                      std::string_view("._-@:%/").find(byte) != std::string_view::npos;
    if (!good) {
      return fmt::format("\"{}\" is not a host name; use only letters, digits and . _ - @ : % /",
                         shown);
    }
  }
  return {};
}

// Collects hosts and errors. `where` is the start of an error message.
class HostListReader {
 public:
  void read(std::string_view text, const std::string& where) {
    auto [name, slots] = parts(text);
    add(name, slots, where);
  }
  void add(std::string_view name, std::optional<std::string_view> slots, const std::string& where) {
    if (const auto why = objection(name); !why.empty()) return report_error(where, why);
    Host host{std::string(name), std::nullopt};
    if (slots) {
      const auto number = exact_number<int>(*slots);
      if (!number || *number < 1 || *number > bounds::local_world_size_max) {
        return report_error(where, fmt::format("invalid number of slots \"{}\" for {}; use 1 to {}",
                                               plain_line(*slots, bounds::name_shown_bytes_max),
                                               name, bounds::local_world_size_max));
      }
      host.slots = number;
    }
    const auto [first, is_new] = seen_.emplace(host.name, where);
    if (!is_new) {
      return report_error(
          where, fmt::format("{} is listed twice{}; list it once, with its slots", host.name,
                             first->second.empty() ? "" : ", first in " + first->second));
    }
    hosts_.push_back(std::move(host));
  }
  void report_error(const std::string& where, const std::string& why) {
    diagnostics_.push_back(where.empty() ? why : fmt::format("{}: {}", where, why));
  }
  HostList result(const std::string& where) {
    if (hosts_.empty() && diagnostics_.empty()) report_error(where, "no hosts found");
    if (!diagnostics_.empty()) return tl::unexpected(std::move(diagnostics_));
    return std::move(hosts_);
  }

 private:
  static std::pair<std::string_view, std::optional<std::string_view>> parts(std::string_view text) {
    if (text.starts_with('[')) {
      const auto close = text.find(']');
      if (close == text.npos) return {text, std::nullopt};
      const auto rest = text.substr(close + 1);
      const auto name = text.substr(1, close - 1);
      if (rest.empty()) return {name, std::nullopt};
      // Anything else in this place is reported as an invalid number of slots.
      return {name, rest.front() == ':' ? rest.substr(1) : rest};
    }
    const auto colon = text.find(':');
    const bool is_v6 = colon != text.npos && text.find(':', colon + 1) != text.npos;
    if (colon == text.npos || is_v6) return {text, std::nullopt};
    return {text.substr(0, colon), text.substr(colon + 1)};
  }

  std::vector<Host> hosts_;
  std::vector<std::string> diagnostics_;
  std::map<std::string, std::string> seen_;  // the location of its first occurrence
};

std::vector<std::string_view> host_words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = trimmed(line)).empty()) {
    const auto end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

void read_line(std::string_view line, const std::string& where, HostListReader& reader) {
  const auto words = host_words(line.substr(0, line.find('#')));
  if (words.empty()) return;
  if (words.size() == 1) return reader.read(words.front(), where);
  constexpr std::string_view slots = "slots=";
  // Open MPI's max-slots= limits overcommitment, which cpprun does not do.
  for (std::size_t at = 1; at < words.size(); ++at) {
    const bool known = words[at].starts_with(slots) || words[at].starts_with("max-slots=") ||
                       words[at].starts_with("max_slots=");
    if (!known) {
      return reader.report_error(where,
                                 fmt::format("unknown word \"{}\" after {}; write {} slots=4",
                                             plain_line(words[at], bounds::name_shown_bytes_max),
                                             plain_line(words[0], bounds::name_shown_bytes_max),
                                             plain_line(words[0], bounds::name_shown_bytes_max)));
    }
  }
  std::optional<std::string_view> count;
  for (const auto& word : words) {
    if (word.starts_with(slots)) count = word.substr(slots.size());
  }
  reader.add(words.front(), count, where);
}

}  // namespace

HostList parse_hosts(std::string_view text) {
  HostListReader reader;
  for (const auto part : split(text, ',')) reader.read(trimmed(part), {});
  return reader.result({});
}

HostList parse_host_file(std::string_view text, std::string_view path) {
  HostListReader reader;
  int number = 0;
  for (const auto line : split(text, '\n')) {
    read_line(line, fmt::format("{}:{}", path, ++number), reader);
  }
  return reader.result(std::string(path));
}

}  // namespace cpprun

namespace cpprun::fanout {

namespace {

constexpr std::string_view slurm_hosts = "slurm";

}  // namespace

HostList hosts_of(const std::string& text, const Environment& environment) {
  if (text != slurm_hosts) return parse_hosts(text);
  const auto* list = find_variable(environment, "SLURM_JOB_NODELIST");
  if (list == nullptr) {
    return tl::unexpected(
        std::vector<std::string>{"SLURM_JOB_NODELIST is not set; use --hosts=slurm inside an "
                                 "allocation (salloc or a batch script)"});
  }
  const auto names = expand_hosts(*list);
  if (!names) return tl::unexpected(std::vector<std::string>{names.error().reason});
  std::vector<Host> hosts;
  for (const auto& name : *names) hosts.push_back({name, std::nullopt});
  return hosts;
}

HostList hosts_in_file(const std::string& path, const std::string& source,
                       const TextFile& read_file) {
  const auto text = read_file(path);
  if (text) return parse_host_file(*text, path);
  return tl::unexpected(std::vector<std::string>{
      fmt::format("{}={} cannot be read: {}; give the path of a text file with one host per line",
                  source, path, text.error().reason)});
}

std::vector<Member> members_of(const std::vector<Host>& hosts) {
  std::vector<Member> members;
  for (const auto& host : hosts) {
    members.push_back({static_cast<int>(members.size()), host.name, host.slots.value_or(0)});
  }
  return members;
}

std::vector<std::string> remote_shell(const std::optional<std::string>& given,
                                      const std::optional<std::string>& hosts) {
  if (given) {
    std::vector<std::string> words;
    for (const auto word : split(*given, ' ')) {
      if (!trimmed(word).empty()) words.emplace_back(trimmed(word));
    }
    return words;
  }
  if (hosts == std::string(slurm_hosts)) {
    return {"srun", "--overlap", "--nodes=1", "--ntasks=1", "--nodelist={host}"};
  }
  return {"ssh", "-T", "-o", "BatchMode=yes", "{host}"};
}

}  // namespace cpprun::fanout
