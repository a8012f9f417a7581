// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// --duplicate-stdout-filters: which lines of a tee'd stream are written a second time, to the one
// file per attempt that collects the chosen lines of all workers.

#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/line_splitter.h"

namespace cpprun {

// The line for that file, with prefix and newline, or nothing if it contains none of the words.
// Pieces of an over-long line, and redraws of a progress bar, count as lines of their own, so that
// lines of different workers never mix there.
std::string duplicate_of(const Piece& piece, std::string_view prefix,
                         const std::vector<std::string>& words);

}  // namespace cpprun
