// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The lines that `cpprunctl top` shows on a terminal of a given size, and its keys. Pure.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/control/text.h"
#include "launcher/control/views.h"
#include "launcher/table.h"

namespace cpprun {

// One job with its nodes, or all jobs if none was selected.
struct TopView {
  std::vector<SeenJob> jobs;
  std::optional<JobView> job = {};
  std::vector<NodeView> nodes = {};
  std::string trouble = {};  // why the last refresh failed; empty: it did not
};

enum class TopOrder { number, host, state, heard, since };

struct TopSettings {
  TopOrder order = TopOrder::number;
  bool is_reversed = false;
  std::size_t first = 0;  // first row shown
};

// At most `height` lines, none wider than the terminal.
std::vector<std::string> top_frame(const TopView& view, const TopSettings& settings,
                                   const Canvas& canvas, std::size_t height);

enum class KeyEffect { none, changed, quit };
// Keys as a terminal sends them. An arrow key is three bytes.
KeyEffect press(TopSettings& settings, std::string_view key);

}  // namespace cpprun
