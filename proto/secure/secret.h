// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A secret shared by the nodes of a job: 32 random bytes, and an id by which both sides identify
// it. The id is not confidential: it is sent in clear text when a link begins, and appears in
// messages and logs.

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

inline constexpr std::size_t key_bytes = 32;
using Key = std::array<unsigned char, key_bytes>;

struct Secret {
  std::string id;
  std::shared_ptr<const Key> key;  // allocated by io/key_memory.h
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

}  // namespace cpprun
