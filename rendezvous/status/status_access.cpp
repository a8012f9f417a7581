// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::uint32_t root = 0;

}  // namespace

std::optional<StatusAccess> status_access(std::string_view name) {
  if (name == "none") return StatusAccess::none;
  if (name == "user") return StatusAccess::user;
  if (name == "host") return StatusAccess::host;
  if (name == "network") return StatusAccess::network;
  return std::nullopt;
}

bool asks_whose(StatusAccess access, bool by_loopback) {
  return access == StatusAccess::user && by_loopback;
}

Result<void> may_look(StatusAccess access, const StatusClient& client, std::uint32_t own_user) {
  if (access == StatusAccess::none)
    return failure("read access is disabled (--status-access=none)");
  if (access == StatusAccess::network || client.credential) return {};
  if (!client.by_loopback) {
    return failure(
        "only this machine has read access; connect to its loopback address, for example through "
        "ssh -L, or start with --status-access=network");
  }
  if (access == StatusAccess::host) return {};
  if (!client.user) {
    return failure(
        fmt::format("only root and the user that runs this program have read access, and the user "
                    "of this connection is unknown: {}; to give all users of this machine read "
                    "access, start with --status-access=host",
                    client.user.error().reason));
  }
  if (*client.user == own_user || *client.user == root) return {};
  return failure(fmt::format(
      "only root and the user that runs this program (uid {}) have read access, and this is a "
      "connection of uid {}; to give all users of this machine read access, start with "
      "--status-access=host",
      own_user, *client.user));
}

Result<void> may_control(const StatusClient& client, std::uint32_t own_user) {
  if (client.credential) {
    if (client.credential->may_control) return {};
    return failure("this token gives read access only; create one with cpprunctl token --order");
  }
  if (!client.by_loopback) {
    return failure(
        "only this machine has control access; connect to its loopback address, for example "
        "through ssh -L");
  }
  if (!client.user) {
    return failure(
        fmt::format("only root and the user that runs this program have control access, and the "
                    "user of this connection is unknown: {}",
                    client.user.error().reason));
  }
  if (*client.user == own_user || *client.user == root) return {};
  return failure(
      fmt::format("only root and the user that runs this program (uid {}) have control access, and "
                  "this is a connection of uid {}",
                  own_user, *client.user));
}

std::optional<std::size_t> who_gives_way(const std::vector<ConnectionSlot>& taken,
                                         AccessLevel newcomer) {
  std::map<std::string, std::size_t> unidentified_connections;
  for (const ConnectionSlot& each : taken) {
    if (each.access == AccessLevel::none) ++unidentified_connections[each.source];
  }
  // Lowest standing first, then the address with the most connections, then the oldest.
  const auto rank = [&](const ConnectionSlot& each) {
    const std::size_t crowd =
        each.access == AccessLevel::none ? unidentified_connections[each.source] : 0;
    return std::tuple(each.access, taken.size() - crowd, each.since);
  };
  std::optional<std::size_t> first;
  for (std::size_t at = 0; at < taken.size(); ++at) {
    const ConnectionSlot& each = taken[at];
    const bool is_below = each.access < newcomer || each.access == AccessLevel::none;
    if (!is_below && (each.access > newcomer || !each.is_idle)) continue;
    if (!first || rank(each) < rank(taken[*first])) first = at;
  }
  return first;
}

namespace {

// The words of a line of a configuration file, without its comment.
std::vector<std::string> words_of(std::string_view line) {
  line = line.substr(0, line.find_first_of("#;"));
  std::vector<std::string> words;
  std::string word;
  for (const char letter : std::string(line) + ' ') {
    const bool is_blank = letter == ' ' || letter == '\t' || letter == '\r';
    if (!is_blank) word += letter;
    if (is_blank && !word.empty()) words.push_back(std::exchange(word, {}));
  }
  return words;
}

// A trailing dot marks a name as fully qualified; comparisons are made without it.
std::string without_last_dot(std::string name) {
  if (name.ends_with('.')) name.pop_back();
  return name;
}

void add(HostNames& names, std::string name) {
  name = without_last_dot(std::move(name));
  if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

HostNames host_names(HostNames given, const HostFiles& files) {
  HostNames names;
  for (std::string& each : given) add(names, std::move(each));
  const std::string plain = without_last_dot(files.host).substr(0, files.host.find('.'));
  add(names, files.host);
  add(names, plain);
  if (plain.empty()) return names;
  for (const std::string_view line : split(files.resolv, '\n')) {
    const auto words = words_of(line);
    if (words.empty() || (words[0] != "search" && words[0] != "domain")) continue;
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (words[at] != ".") add(names, plain + "." + words[at]);
    }
  }
  for (const std::string_view line : split(files.hosts, '\n')) {
    const auto words = words_of(line);
    const bool is_own = std::ranges::any_of(
        words, [&](const std::string& word) { return word == files.host || word == plain; });
    for (std::size_t at = 1; is_own && at < words.size(); ++at) add(names, words[at]);
  }
  return names;
}

}  // namespace cpprun
