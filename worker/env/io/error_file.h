// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Puts a worker's error file in its place: whole or not at all, and only if nobody was there first,
// because the first error of a process is its cause and the later ones are echoes.

#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

enum class ErrorFile { written, already_there };

Result<ErrorFile> write_error_file(const std::string& path, std::string_view json);

// The same for a signal handler: async-signal-safe, no allocation, no word about a failure.
// `temporary_path` lies in the folder of `path`.
void write_error_file_in_signal(const char* path, const char* temporary_path, const char* bytes,
                                std::size_t size) noexcept;

}  // namespace cpprun
