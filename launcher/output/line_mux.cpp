// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/line_mux.h"

namespace cpprun {

void LineMux::add(int speaker, std::string_view prefix, const Piece& piece, std::string& console) {
  const bool goes_on = inside_ == speaker;
  if (inside_ && !goes_on) console += '\n';
  if (piece.begins_line || !goes_on) console += prefix;
  console += piece.text;
  inside_ = piece.ends_line ? std::nullopt : std::optional(speaker);
}

}  // namespace cpprun
