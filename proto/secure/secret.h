// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A secret that the nodes of a job share: 32 random bytes, with an id by which each side knows
// which one the other means. The id is no secret: it is said in clear when a link begins, and
// stands in messages and logs.

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
  std::shared_ptr<const Key> key;  // in memory that io/key_memory.h has made
};

// Those that are valid here. A node begins its links with the first, and takes any of them from
// others: while a secret is exchanged for another, files hold both.
using Secrets = std::vector<Secret>;
const Secret* find_secret(const Secrets& secrets, std::string_view id);

// What stands in a file of secrets: one a line, "cpprun1:ID:64 hexadecimal digits", empty lines and
// lines that begin with # aside. An id has 1 to 64 letters, digits, dots, dashes, underscores.
//
// Where the text is wrong the reason says in which line, and never what stood there.
// `make_key` gives the memory that a key is written to.
using MakeKey = std::shared_ptr<Key> (*)();
Result<Secrets> parse_secrets(std::string_view text, MakeKey make_key);

// The line of a file, without its end.
std::string secret_line(const Secret& secret);
bool is_secret_id(std::string_view id);

// As much as a file of secrets holds at most, and how many they are.
inline constexpr std::size_t secret_file_bytes_max = 16 * 1024;
inline constexpr std::size_t secrets_max = 8;

}  // namespace cpprun
