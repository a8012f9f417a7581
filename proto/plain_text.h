// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Untrusted text on its way into a log, onto a terminal or into a report. A newline in it would
// forge a line, an escape (ESC [, or U+009B alone) moves the cursor, U+202E reverses the rest of
// the line, and zero-width characters make two names look alike. All of that becomes '?', and so
// does every byte that is not UTF-8. Letters of all languages stay. A worker's own words, which
// are full of colours, would be full of '?': `printable` of launcher/output drops these instead.

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
