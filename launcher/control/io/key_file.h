// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Files of secrets, written: whole, closed to others and on the disk, or not at all.

#include <string>
#include <string_view>

#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun::io {

// A new file, with the folders that it needs. Never one in the place of another: of two who make
// it at once, one is refused. What cannot be done leaves no file and no folder behind.
Result<void> create_key_file(const std::string& path, std::string_view text);

// Puts a secret before those that are in the file, in one step: whoever reads it meanwhile has the
// old ones, or all. The one that was first is the answer's.
Result<Secret> add_to_key_file(const std::string& path, const Secret& secret);

}  // namespace cpprun::io
