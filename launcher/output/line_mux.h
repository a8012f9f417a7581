// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Several speakers, one console: lines of different speakers never mix. If another one speaks in
// the middle of somebody's line (an over-long one, a progress bar), a newline goes in between and
// the prefix is printed again when the first goes on.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/output/line_splitter.h"

namespace cpprun {

class LineMux {
 public:
  // Appends to `console` what has to be written for this piece, without what was shown of it
  // before. Each speaker has a number.
  void add(int speaker, std::string_view prefix, const Piece& piece, std::string& console);

 private:
  std::optional<int> inside_;  // who has an unfinished line on the console
};

}  // namespace cpprun
