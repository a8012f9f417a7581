// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The last words of a stream, bounded in lines and in bytes, for the report.

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/line_splitter.h"

namespace cpprun {

class LastLines {
 public:
  void add(const Piece& piece);
  // Without their newlines and what a terminal would obey; empty lines at the end are left out.
  std::vector<std::string> get() const;

 private:
  std::deque<std::string> lines_;
  std::size_t bytes_ = 0;
  bool open_ = false;  // the last line may still grow
};

// The same of a text that is there as a whole, such as the tail of a file.
std::vector<std::string> last_lines_of(std::string_view text);

}  // namespace cpprun
