// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text of strangers on its way into a log, onto a terminal or into a report. Whoever wrote it may
// want more than to be read: a line's end forges a line, an escape (ESC [, or U+009B alone) moves
// the cursor, U+202E turns the rest of the line round, and what has no width makes two names look
// alike. All of that becomes '?', and so does every byte that is no UTF-8. Letters of all
// languages stay. Not for a worker's own words, which are full of colours and would be full of '?':
// `printable` of launcher/output leaves these out.

#include <cstddef>
#include <string>
#include <string_view>

namespace cpprun {

// One line of a log.
std::string plain_line(std::string_view text);
// The same of at most so many bytes; what is longer is cut between two characters and ends in "…".
std::string plain_line(std::string_view text, std::size_t bytes_max);

// A text that may have several lines, such as a trace-back.
std::string plain_lines(std::string_view text);

}  // namespace cpprun
