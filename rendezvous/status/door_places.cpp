// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/door_places.h"

#include <fmt/format.h>

#include <algorithm>

namespace cpprun {

namespace {

constexpr std::string_view ending = ".sock";
constexpr std::string_view name_in_temporary = "cpprun-";
constexpr std::string_view runtime_directories = "/run/user";

// The host name as part of a file name.
std::string as_file_name(std::string host) {
  constexpr std::size_t name_bytes_max = 64;
  if (host.size() > name_bytes_max) host.resize(name_bytes_max);
  std::replace(host.begin(), host.end(), '/', '_');
  return host;
}

DoorDirectory in_runtime_directory(std::string parent) {
  return {.parent = std::move(parent), .name = "cpprun", .is_parent_own = true};
}

DoorDirectory in_temporary_directory(std::string parent, std::uint32_t user) {
  return {.parent = std::move(parent), .name = fmt::format("{}{}", name_in_temporary, user)};
}

void add(std::vector<DoorDirectory>& directories, DoorDirectory directory) {
  if (std::find(directories.begin(), directories.end(), directory) == directories.end()) {
    directories.push_back(std::move(directory));
  }
}

}  // namespace

std::string temporary_directory(const Environment& environment) {
  const auto* wanted = find_variable(environment, "TMPDIR");
  // A relative path would mean a different directory in each program.
  return wanted == nullptr || !wanted->starts_with('/') ? "/tmp" : *wanted;
}

std::vector<DoorDirectory> own_door_directories(const Environment& environment,
                                                std::uint32_t user) {
  std::vector<DoorDirectory> directories;
  const auto* runtime = find_variable(environment, "XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime->starts_with('/')) {
    directories.push_back(in_runtime_directory(*runtime));
  }
  add(directories, in_temporary_directory(temporary_directory(environment), user));
  // A fallback for nodes on which TMPDIR is unusable.
  add(directories, in_temporary_directory("/tmp", user));
  return directories;
}

std::vector<DoorDirectory> searched_door_directories(const Environment& environment,
                                                     std::uint32_t user) {
  auto directories = own_door_directories(environment, user);
  add(directories, in_runtime_directory(fmt::format("{}/{}", runtime_directories, user)));
  return directories;
}

std::vector<DoorDirectory> door_directories_of_all(const Environment& environment,
                                                   const std::vector<std::string>& users,
                                                   const std::vector<std::string>& temporary) {
  std::vector<DoorDirectory> directories;
  for (const auto& user : users) {
    add(directories, in_runtime_directory(fmt::format("{}/{}", runtime_directories, user)));
  }
  for (const auto& name : temporary) {
    if (!name.starts_with(name_in_temporary)) continue;
    add(directories, {.parent = temporary_directory(environment), .name = name});
  }
  return directories;
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
