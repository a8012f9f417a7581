// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of the report and of the event file.

#include <cstddef>

namespace cpprun::bounds {

// Lines of a worker's stderr that a report shows.
inline constexpr std::size_t last_lines_shown_max = 20;
// Events queued for a pipe that is not read, or a full disk; later ones are counted.
inline constexpr std::size_t events_waiting_bytes_max = 1024 * 1024;
// Failed attempts kept in the report: the first ones, which show how it began, and the last. A
// thousand restarts make a report of half a megabyte.
inline constexpr std::size_t first_attempts_kept_max = 100;
inline constexpr std::size_t last_attempts_kept_max = 900;

}  // namespace cpprun::bounds
