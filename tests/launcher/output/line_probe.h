// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A console on which two workers' bytes appear, for the tests of splitter and mux.

#include <string>
#include <string_view>

#include "launcher/output/lines.h"

namespace cpprun::probe {

// What a console would show of one worker's bytes, prefix "P:".
struct Screen {
  LineMux mux;
  std::string text;
  LineSplitter cutters[2];
  void take(std::string_view bytes, int speaker = 0) {
    cutters[speaker].take(bytes, [&](const Piece& piece) { show(speaker, piece); });
  }
  void finish(int speaker = 0) {
    cutters[speaker].finish([&](const Piece& piece) { show(speaker, piece); });
  }
  // No further bytes have arrived for a moment.
  void wait(int speaker = 0) {
    if (const auto piece = cutters[speaker].show_unfinished()) show(speaker, *piece);
  }
  void show(int speaker, const Piece& piece) {
    mux.add(speaker, speaker == 0 ? "A:" : "B:", piece, text);
  }
};

}  // namespace cpprun::probe
