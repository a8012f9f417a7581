// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/store_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

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

// Visits the beginning of each key and of its value. Why there is no record, where there is none.
template <class Visit>
std::optional<std::string> walk(std::uint64_t size, const ReadAt& read_at, Visit&& visit) {
  std::string key;
  bool is_value = false;
  for (std::uint64_t at = 0; at < size || is_value; is_value = !is_value) {
    std::uint32_t length = 0;
    if (size - at < sizeof length || !read_at(at, &length, sizeof length) ||
        size - at - sizeof length < length) {
      return fmt::format("its record at byte {} is cut off, or none", at);
    }
    std::string beginning(std::min<std::size_t>(length, own_key_bytes_max), '\0');
    const bool is_read = read_at(at + sizeof length, beginning.data(), beginning.size());
    if (!is_value && (!is_read || !is_key(beginning, length))) {
      return fmt::format("its record at byte {} has no key", at);
    }
    if (is_value) visit(key, beginning);
    if (!is_value) key = std::move(beginning);
    at += sizeof length + length;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> store_file_fault(std::uint64_t size, const ReadAt& read_at) {
  return walk(size, read_at, [](std::string_view, std::string_view) {});
}

bool is_left_behind(std::uint64_t size, const ReadAt& read_at, int ranks) {
  int users = 0;
  int former_users = 0;
  const auto fault = walk(size, read_at, [&](std::string_view key, std::string_view value) {
    if (key == users_key) users = exact_number<int>(value).value_or(1);
    if (key == former_users_key) former_users = exact_number<int>(value).value_or(0);
  });
  return !fault && users == 0 && former_users >= ranks;
}

}  // namespace cpprun
