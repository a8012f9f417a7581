// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/door_places.h"

#include <fmt/format.h>

#include <algorithm>

namespace cpprun {

namespace {

constexpr std::string_view ending = ".sock";
constexpr std::string_view name_in_temporary = "cpprun-";
constexpr std::string_view runtime_folders = "/run/user";

// The host name as part of a file name.
std::string as_file_name(std::string host) {
  constexpr std::size_t name_bytes_max = 64;
  if (host.size() > name_bytes_max) host.resize(name_bytes_max);
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

DoorFolder in_runtime_folder(std::string parent) {
  return {.parent = std::move(parent), .name = "cpprun", .is_parent_own = true};
}

DoorFolder in_temporary_folder(std::string parent, std::uint32_t user) {
  return {.parent = std::move(parent), .name = fmt::format("{}{}", name_in_temporary, user)};
}

void add(std::vector<DoorFolder>& folders, DoorFolder folder) {
  if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
    folders.push_back(std::move(folder));
  }
}

}  // namespace

std::string temporary_folder(const Environment& environment) {
  const auto* wanted = find_variable(environment, "TMPDIR");
  // A relative path would mean a different directory in each program.
  return wanted == nullptr || !wanted->starts_with('/') ? "/tmp" : *wanted;
}

std::vector<DoorFolder> own_door_folders(const Environment& environment, std::uint32_t user) {
  std::vector<DoorFolder> folders;
  const auto* runtime = find_variable(environment, "XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime->starts_with('/')) {
    folders.push_back(in_runtime_folder(*runtime));
  }
  add(folders, in_temporary_folder(temporary_folder(environment), user));
  // A fallback for nodes on which TMPDIR is unusable.
  add(folders, in_temporary_folder("/tmp", user));
  return folders;
}

std::vector<DoorFolder> searched_door_folders(const Environment& environment, std::uint32_t user) {
  auto folders = own_door_folders(environment, user);
  add(folders, in_runtime_folder(fmt::format("{}/{}", runtime_folders, user)));
  return folders;
}

std::vector<DoorFolder> door_folders_of_all(const Environment& environment,
                                            const std::vector<std::string>& users,
                                            const std::vector<std::string>& temporary) {
  std::vector<DoorFolder> folders;
  for (const auto& user : users) {
    add(folders, in_runtime_folder(fmt::format("{}/{}", runtime_folders, user)));
  }
  for (const auto& name : temporary) {
    if (!name.starts_with(name_in_temporary)) continue;
    add(folders, {.parent = temporary_folder(environment), .name = name});
  }
  return folders;
}

std::string door_name(const std::string& host, int pid, int n) {
  const auto name = fmt::format("{}-{}", as_file_name(host), pid);
  return n <= 1 ? fmt::format("{}{}", name, ending) : fmt::format("{}-{}{}", name, n, ending);
}

bool is_door(std::string_view file) {
  return file.size() > ending.size() && file.ends_with(ending) && !file.starts_with('.');
}

bool is_door_of(std::string_view file, const std::string& host) {
  const auto begin = as_file_name(host) + "-";
  if (!is_door(file) || !file.starts_with(begin)) return false;
  // "node-1-77.sock" belongs to the host "node-1", not to "node".
  const auto rest = file.substr(begin.size(), file.size() - begin.size() - ending.size());
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  const auto second = rest.find('-');
  const auto number = rest.substr(0, second);
  const auto count = second == std::string_view::npos ? "0" : rest.substr(second + 1);
  return !number.empty() && std::ranges::all_of(number, is_digit) && !count.empty() &&
         std::ranges::all_of(count, is_digit);
}

}  // namespace cpprun
