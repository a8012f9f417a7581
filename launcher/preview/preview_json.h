// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A preview as JSON, for scripts, and from a host to the console that asked it. What is not known
// before the start is null.

#include <string>
#include <string_view>

#include "launcher/preview/preview.h"
#include "proto/result.h"

namespace cpprun {

// Several lines, and a newline at the end.
std::string to_json(const Preview& preview);

// What another cpprun of the same version has written.
Result<Preview> read_preview(std::string_view json);

}  // namespace cpprun
