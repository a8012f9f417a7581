// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where a node's secret file is.

#include <string>
#include <string_view>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// Names the secret file when no flag does.
inline constexpr std::string_view secret_file_variable = "CPPRUN_SECRET_FILE";

struct SecretPlace {
  std::string path;        // empty: no file to read
  bool was_named = false;  // set by the user; the file then has to exist
  friend bool operator==(const SecretPlace&, const SecretPlace&) = default;
};

// The path from the flag (`named`), else from the environment variable, else the user's own file:
// cpprun/secret in XDG_CONFIG_HOME or in ~/.config. The home directory comes from HOME only, not
// from the password database.
SecretPlace secret_place(std::string_view named, const Environment& environment);

// Whether CPPRUN_REQUIRE_SECRET demands a secret. It is a variable and not a flag because the
// machine's administrator sets it. An invalid value is an error.
Result<bool> secret_required(const Environment& environment);

// The path of the user's own secret file. Empty if neither XDG_CONFIG_HOME nor HOME is
// an absolute path.
std::string own_secret_path(const Environment& environment);

}  // namespace cpprun
