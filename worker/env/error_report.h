// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker's report to its launcher about the error that ended it. The launcher takes the earliest
// report of all ranks as the root cause, so the time matters as much as the message.

#include <cstdint>
#include <exception>
#include <string>

namespace cpprun {

struct ErrorReport {
  std::string message;    // `Type: what happened`
  std::string callstack;  // of the exception if it has one, else empty
  std::int64_t unix_seconds = 0;
  friend bool operator==(const ErrorReport&, const ErrorReport&) = default;
};

// Describes an exception, or std::terminate without one (a null pointer).
ErrorReport describe(const std::exception_ptr& error, std::int64_t unix_seconds);

// The file that torchrun's agent reads: {"message": {"message": …, "extraInfo": {"py_callstack": …,
// "timestamp": "<seconds>"}}}. Invalid UTF-8 is replaced, and long messages are cut.
std::string to_json(const ErrorReport& report);

}  // namespace cpprun
