// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where a node's secret lies.

#include <string>
#include <string_view>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// Names a file of secrets where no flag does.
inline constexpr std::string_view secret_file_variable = "CPPRUN_SECRET_FILE";

struct SecretPlace {
  std::string path;        // empty: there is nowhere to look
  bool was_named = false;  // by a person: then it has to be there
  friend bool operator==(const SecretPlace&, const SecretPlace&) = default;
};

// The file that a flag has named; else the variable's; else the user's own, cpprun/secret in
// XDG_CONFIG_HOME or in ~/.config. HOME is believed, the password database is not asked.
SecretPlace secret_place(std::string_view named, const Environment& environment);

// Whether CPPRUN_REQUIRE_SECRET asks for one. A variable and no flag: it is whoever looks after the
// machine that sets it. A word that it cannot be is an error.
Result<bool> secret_required(const Environment& environment);

// The user's own, and where there is none, empty.
std::string own_secret_path(const Environment& environment);

}  // namespace cpprun
