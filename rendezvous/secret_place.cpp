// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/secret_place.h"

#include <fmt/format.h>

#include "proto/text.h"

namespace cpprun {
namespace {

// Relative paths are ignored: where the secret is must not depend on the current directory.
std::string folder_in(const Environment& environment, std::string_view variable) {
  const std::string* const said = find_variable(environment, variable);
  return said != nullptr && said->starts_with('/') ? *said : std::string();
}

}  // namespace

SecretPlace secret_place(std::string_view named, const Environment& environment) {
  if (!named.empty()) return {.path = std::string(named), .was_named = true};
  const std::string* const variable = find_variable(environment, secret_file_variable);
  if (variable != nullptr && !variable->empty()) return {.path = *variable, .was_named = true};
  return {.path = own_secret_path(environment), .was_named = false};
}

Result<bool> secret_required(const Environment& environment) {
  const std::string* const said = find_variable(environment, "CPPRUN_REQUIRE_SECRET");
  if (said == nullptr || said->empty() || *said == "0") return false;
  if (*said == "1") return true;
  return failure(
      fmt::format("CPPRUN_REQUIRE_SECRET={} is neither 1 (on) nor 0 (off)", plain_line(*said)));
}

std::string own_secret_path(const Environment& environment) {
  std::string settings = folder_in(environment, "XDG_CONFIG_HOME");
  if (settings.empty()) {
    settings = folder_in(environment, "HOME");
    if (settings.empty()) return {};
    settings += "/.config";
  }
  return settings + "/cpprun/secret";
}

}  // namespace cpprun
