// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/console.h"

namespace cpprun::io {

void Console::write(int speaker, std::string_view prefix, const Piece& piece) {
  std::string text;
  mux_.add(speaker, prefix, piece, text);
  writer_.write(text);
}

}  // namespace cpprun::io
