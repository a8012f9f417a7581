// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/line_mux.h"

namespace cpprun {

void LineMux::add(int speaker, std::string_view prefix, const Piece& piece, std::string& console) {
  const auto text = piece.text.substr(piece.shown);
  if (text.empty()) return;
  const bool goes_on = inside_ == speaker;
  if (inside_ && !goes_on) console += '\n';
  if ((piece.begins_line && piece.shown == 0) || !goes_on) console += prefix;
  console += text;
  inside_ = piece.ends_line ? std::nullopt : std::optional(speaker);
}

}  // namespace cpprun
