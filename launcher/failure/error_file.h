// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a worker wrote into its error.json, in either of torchrun's two schemas.

#include <cstdint>
#include <optional>
#include <string>

#include "proto/result.h"

namespace cpprun {

struct WorkerError {
  // Both without what a terminal would obey.
  std::string message;                       // one sentence, e.g. "RuntimeError: out of memory"
  std::string traceback;                     // may be empty
  std::optional<std::int64_t> unix_seconds;  // when the worker wrote it
  friend bool operator==(const WorkerError&, const WorkerError&) = default;
};

// Garbage is an error that says in what way; it never ends a job.
Result<WorkerError> parse_error_file(const std::string& text);

// The file's text with the exit code added, as torchrun's agent leaves it in its own error file.
Result<std::string> with_exit_code(const std::string& text, int exit_code);

}  // namespace cpprun
