// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/store_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "proto/text.h"

namespace cpprun {
namespace {

// LibTorch's own: how many use the file, and how many have.
constexpr std::string_view users_key = "refcount/";
constexpr std::string_view former_users_key = "cleanup/";
constexpr std::size_t own_key_bytes_max = 32;

bool is_key(std::string_view beginning, std::uint32_t length) {
  if (length == 0) return false;
  if (beginning.front() == '/' || beginning.front() == '-') return true;
  return length == beginning.size() &&
         beginning.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == beginning.size() - 1 &&
         beginning.back() == '/';
}

}  // namespace

std::optional<std::string> store_file_fault(std::uint64_t size, const ReadAt& read_at) {
  bool is_value = false;
  for (std::uint64_t at = 0; at < size || is_value; is_value = !is_value) {
    std::uint32_t length = 0;
    if (size - at < sizeof length || !read_at(at, &length, sizeof length) ||
        size - at - sizeof length < length) {
      return fmt::format("its record at byte {} is cut off, or none", at);
    }
    std::array<char, own_key_bytes_max> beginning{};
    const std::size_t seen = std::min<std::size_t>(length, beginning.size());
    if (!is_value && (!read_at(at + sizeof length, beginning.data(), seen) ||
                      !is_key({beginning.data(), seen}, length))) {
      return fmt::format("its record at byte {} has no key", at);
    }
    at += sizeof length + length;
  }
  return std::nullopt;
}

bool is_left_behind(std::uint64_t size, const ReadAt& read_at, int ranks) {
  int users = 0;
  int former_users = 0;
  std::string key;
  bool is_value = false;
  for (std::uint64_t at = 0; at < size; is_value = !is_value) {
    std::uint32_t length = 0;
    if (!read_at(at, &length, sizeof length)) return false;
    std::string text(std::min<std::size_t>(length, own_key_bytes_max), '\0');
    if (!read_at(at + sizeof length, text.data(), text.size())) return false;
    const auto number = exact_number<int>(text);
    if (!is_value) {
      key = text;
    } else if (key == users_key) {
      users = number.value_or(1);
    } else if (key == former_users_key) {
      former_users = number.value_or(0);
    }
    at += sizeof length + length;
  }
  return users == 0 && former_users >= ranks;
}

}  // namespace cpprun
