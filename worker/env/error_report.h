// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a worker tells its launcher about the error that ended it. The launcher picks the earliest
// report of all ranks as the root cause, so the time counts as much as the sentence.

#include <cstdint>
#include <exception>
#include <string>

namespace cpprun {

struct ErrorReport {
  std::string message;    // `Type: what happened`
  std::string callstack;  // as far as the exception brought one along, else empty
  std::int64_t unix_seconds = 0;
  friend bool operator==(const ErrorReport&, const ErrorReport&) = default;
};

// The report of an exception, or of a terminate without one (a null pointer).
ErrorReport describe(const std::exception_ptr& error, std::int64_t unix_seconds);

// The file torchrun's agent reads: {"message": {"message": …, "extraInfo": {"py_callstack": …,
// "timestamp": "<seconds>"}}}. Bytes that are no UTF-8 are replaced, long messages cut.
std::string to_json(const ErrorReport& report);

}  // namespace cpprun
