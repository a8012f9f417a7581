// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The requests and replies of store clients as bytes, in PyTorch's newest dialect unless another is
// given.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/c10d/codec.h"
#include "tests/proto/c10d_golden.h"

namespace cpprun {

inline const std::string hello = c10d::golden::bytes_of("00 cef7853c");

inline std::string request(const c10d::Request& request, c10d::Dialect dialect = c10d::Dialect::d) {
  std::string bytes;
  REQUIRE(c10d::encode(request, dialect, bytes));
  return bytes;
}

// Replies with a number, and with a value.
inline std::string number(std::int64_t number) {
  std::string bytes;
  c10d::encode(c10d::Number{number}, bytes);
  return bytes;
}

inline std::string value(std::string_view text) {
  std::string bytes;
  c10d::encode(c10d::Value{text}, bytes);
  return bytes;
}

}  // namespace cpprun
