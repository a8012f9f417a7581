// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of HTTP requests and replies.

#include <cstddef>

namespace cpprun::bounds {

// The head of a request; browsers and scrapers send a tenth of it.
inline constexpr std::size_t http_head_bytes_max = 8 * 1024;
// The body of a request; a command in JSON has a tenth of it.
inline constexpr std::size_t http_body_bytes_max = 4 * 1024;
// The request target: a job id with every byte escaped, and the path around it.
inline constexpr std::size_t http_target_bytes_max = 2 * 1024;

// One event: many times a failure's message.
inline constexpr std::size_t event_bytes_max = 256 * 1024;

}  // namespace cpprun::bounds
