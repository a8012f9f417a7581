// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes a worker's error file atomically, and only if there is none yet: the first error of a
// process is the cause, later ones are consequences.

#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

enum class ErrorFile { written, already_there };

Result<ErrorFile> write_error_file(const std::string& path, std::string_view json);

// For signal handlers: async-signal-safe, no allocation, ignores failures. `temporary_path` must be
// in the directory of `path`.
void write_error_file_in_signal(const char* path, const char* temporary_path, const char* bytes,
                                std::size_t size) noexcept;

}  // namespace cpprun
