// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The owners whose secrets a daemon knows. Each owner has one file, named after the owner.

#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun {

struct Owner {
  std::string name;
  Secrets secrets;
  bool sees_all = false;  // has read and control access to the jobs of all owners
};
using Owners = std::vector<Owner>;

// Limit for one --secrets directory.
inline constexpr std::size_t owners_max = 1024;
// Name of the owner if the daemon has a single file of secrets.
inline constexpr std::string_view only_owner_name = "default";

// The owner that sees the jobs of all owners, if each owner has a file. Another owner never gets
// this access, not even as the only one left.
inline constexpr std::string_view admin_name = "admin";

// Valid names are 1 to 64 letters, digits, dots, dashes and underscores.
bool is_owner_name(std::string_view name);
// Names of files that editors and users leave behind: hidden files, "alice~", "alice.bak".
bool is_passed_over(std::string_view name);

// Fails if two owners have a secret with the same id: a client could not be attributed to one of
// them.
Result<void> check_owners(const Owners& owners);

// "alice, bob (2 secrets)"; a long list ends with the number of the rest.
std::string owners_text(const Owners& owners);

}  // namespace cpprun
