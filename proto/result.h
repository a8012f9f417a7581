// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Error handling. Expected failures are a Result, impossible states an assertion. An Error is a
// clause that says what was attempted, on what, and why it failed. It can be logged as it is:
// `cannot read config "job.json": no such file`.

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace cpprun {

struct Error {
  std::string reason;
  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = tl::expected<T, Error>;

// For `return failure("cannot …: why")` in a function that returns any Result.
inline tl::unexpected<Error> failure(std::string reason) {
  return tl::unexpected<Error>(Error{std::move(reason)});
}

}  // namespace cpprun
