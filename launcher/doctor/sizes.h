// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace cpprun::doctor {

// "64.0 MiB".
std::string size_text(std::uint64_t bytes);

}  // namespace cpprun::doctor
