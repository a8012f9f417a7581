// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whose secrets a daemon knows: one file each, called as its owner is.

#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun {

struct Owner {
  std::string name;
  Secrets secrets;
  bool sees_all = false;  // everybody's jobs, and has a say in them
};
using Owners = std::vector<Owner>;

// As much as one folder holds.
inline constexpr std::size_t owners_max = 1024;
// Of the one owner where a daemon has one file of secrets.
inline constexpr std::string_view only_owner_name = "default";

// Who sees all where each owner has a file. That somebody is the last one left makes it nobody
// else.
inline constexpr std::string_view admin_name = "admin";

// A file's name: 1 to 64 letters, digits, dots, dashes, underscores.
bool is_owner_name(std::string_view name);
// What editors and their users leave behind: hidden files, "alice~", "alice.bak".
bool is_passed_over(std::string_view name);

// Why these cannot be told apart: two of them have a secret of one id.
Result<void> check_owners(const Owners& owners);

// "alice, bob (2 secrets)"; many are counted.
std::string owners_text(const Owners& owners);

}  // namespace cpprun
