// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How this house says that something did not work. What can happen is a Result; what cannot is an
// assertion. An Error is a clause that says what was tried, on what, and why it failed, so that it
// can stand in a log line as it is: `cannot read config "job.json": no such file`.

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

// For `return failure("cannot …: why")` from a function that returns any Result.
inline tl::unexpected<Error> failure(std::string reason) {
  return tl::unexpected<Error>(Error{std::move(reason)});
}

}  // namespace cpprun
