// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/store_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cpprun {
namespace {

// LibTorch's own: refcount/ and cleanup/.
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

}  // namespace cpprun
