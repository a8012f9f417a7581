// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A worker's report to its launcher about the error that ended it, and the file for it. The
// launcher takes the earliest report of all ranks as the root cause, so the time matters as much as
// the message.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include "proto/result.h"

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

// The file is written atomically, and only if there is none yet: the first error of a process is
// the cause, later ones are consequences.
enum class ErrorFile { written, already_there };

Result<ErrorFile> write_error_file(const std::string& path, std::string_view json);

// For signal handlers: async-signal-safe, no allocation, ignores failures. `temporary_path` must be
// in the directory of `path`.
void write_error_file_in_signal(const char* path, const char* temporary_path, const char* bytes,
                                std::size_t size) noexcept;

}  // namespace cpprun
