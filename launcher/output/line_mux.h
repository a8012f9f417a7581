// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Several speakers, one console: lines of different speakers never mix. A speaker in the middle of
// a line (an over-long one, a progress bar) is interrupted by a newline when another one speaks,
// and gets its prefix again when it goes on.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/output/line_splitter.h"

namespace cpprun {

class LineMux {
 public:
  // Appends to `console` what has to be written for this piece. Speakers are told apart by number.
  void add(int speaker, std::string_view prefix, const Piece& piece, std::string& console);

 private:
  std::optional<int> inside_;  // who has an unfinished line on the console
};

}  // namespace cpprun
