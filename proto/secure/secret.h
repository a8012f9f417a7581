// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A secret shared by the nodes of a job: 32 random bytes, and an id by which both sides identify
// it. The id is not confidential: it is sent in clear text when a link begins, and appears in
// messages and logs. Also where a node's secrets are found.

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

inline constexpr std::size_t key_bytes = 32;
using Key = std::array<unsigned char, key_bytes>;

struct Secret {
  std::string id;
  std::shared_ptr<const Key> key;  // allocated by rendezvous/io/secret_file.h
};

// The valid secrets. A node opens its links with the first, and accepts all of them from others:
// during a key rotation, files contain the old and the new one.
using Secrets = std::vector<Secret>;
const Secret* find_secret(const Secrets& secrets, std::string_view id);

// Parses a secrets file: one per line, "cpprun1:ID:64 hexadecimal digits"; empty lines and lines
// starting with # are ignored. An id has 1 to 64 letters, digits, dots, dashes, underscores.
//
// The error names the line, and never quotes its content. `make_key` allocates the memory for a
// key.
using MakeKey = std::shared_ptr<Key> (*)();
Result<Secrets> parse_secrets(std::string_view text, MakeKey make_key);

// The line of a secrets file, without its line end.
std::string secret_line(const Secret& secret);
bool is_secret_id(std::string_view id);

// Limits of a secrets file: its size, and the number of secrets.
inline constexpr std::size_t secret_file_bytes_max = 16 * 1024;
inline constexpr std::size_t secrets_max = 8;

// Names the secrets file when no flag does.
inline constexpr std::string_view secret_file_variable = "CPPRUN_SECRET_FILE";

// Where a node's secrets file is.
struct SecretPath {
  std::string path;        // empty: no file to read
  bool was_named = false;  // set by the user; the file then has to exist
  friend bool operator==(const SecretPath&, const SecretPath&) = default;
};

// The path from the flag (`named`), else from the environment variable, else the user's own file:
// cpprun/secret in XDG_CONFIG_HOME or in ~/.config. The home directory comes from HOME only, not
// from the password database.
SecretPath secret_path(std::string_view named, const Environment& environment);

// Whether CPPRUN_REQUIRE_SECRET demands a secret. It is a variable and not a flag because the
// machine's administrator sets it. An invalid value is an error.
Result<bool> secret_required(const Environment& environment);

// The path of the user's own secret file. Empty if neither XDG_CONFIG_HOME nor HOME is
// an absolute path.
std::string own_secret_path(const Environment& environment);

}  // namespace cpprun
