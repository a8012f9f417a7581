// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/owners.h"

#include <fmt/format.h>

#include <map>

namespace cpprun {
namespace {

constexpr std::size_t named_max = 8;  // owners listed in one log line

}  // namespace

bool is_owner_name(std::string_view name) {
  return is_secret_id(name);
}

bool is_passed_over(std::string_view name) {
  return name.starts_with('.') || name.ends_with('~') || name.ends_with(".bak");
}

Result<void> check_owners(const Owners& owners) {
  std::map<std::string_view, std::string_view> owner_of;
  for (const auto& owner : owners) {
    for (const auto& secret : owner.secrets) {
      const auto [first, is_new] = owner_of.emplace(secret.id, owner.name);
      if (is_new) continue;
      return failure(
          fmt::format("\"{}\" and \"{}\" have secrets with the same id \"{}\"; create a new one "
                      "for one of them (cpprunctl keygen)",
                      first->second, owner.name, secret.id));
    }
  }
  return {};
}

std::string owners_text(const Owners& owners) {
  std::string text;
  std::size_t named = 0;
  for (const auto& owner : owners) {
    if (named == named_max) {
      return fmt::format("{} and {} more", text, owners.size() - named);
    }
    text += fmt::format("{}{}", named == 0 ? "" : ", ", owner.name);
    if (owner.secrets.size() > 1) text += fmt::format(" ({} secrets)", owner.secrets.size());
    ++named;
  }
  return text;
}

}  // namespace cpprun
