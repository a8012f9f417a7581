// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/line_filter.h"

#include <algorithm>

namespace cpprun {

std::string duplicate_of(const Piece& piece, std::string_view prefix,
                         const std::vector<std::string>& words) {
  const bool wanted = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return piece.text.find(word) != std::string_view::npos;
  });
  if (!wanted) return "";
  auto text = piece.text;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  std::string line(prefix);
  line += text;
  line += '\n';
  return line;
}

}  // namespace cpprun
