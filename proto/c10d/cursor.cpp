// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/cursor.h"

#include <fmt/format.h>

namespace cpprun::c10d {

void Cursor::refuse_count(std::uint64_t count) {
  refusal_ = fmt::format("{} keys in one request, more than {}", count,
                         bounds::store_keys_per_request_max);
}

void Cursor::refuse(const char* what, std::uint64_t length, std::uint64_t limit) {
  if (length > limit) {
    refusal_ = fmt::format("a {} of {} bytes, more than {}", what, length, limit);
  } else {
    refusal_ = fmt::format("more than {} bytes in one piece", bytes_max_);
  }
}

}  // namespace cpprun::c10d
