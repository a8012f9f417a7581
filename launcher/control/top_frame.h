// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What `cpprunctl top` shows, as lines for a terminal of some size, and what its keys do. Pure.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/control/text.h"
#include "launcher/control/views.h"
#include "launcher/table.h"

namespace cpprun {

// One job with its nodes; or all of them, where none is meant.
struct TopView {
  std::vector<SeenJob> jobs;
  std::optional<JobView> job = {};
  std::vector<NodeView> nodes = {};
  std::string trouble = {};  // what hinders the next look; empty: nothing
};

enum class TopOrder { number, host, state, heard, since };

struct TopSettings {
  TopOrder order = TopOrder::number;
  bool is_reversed = false;
  std::size_t first = 0;  // row that is shown
};

// As many lines as the terminal has, or fewer; none is wider.
std::vector<std::string> top_frame(const TopView& view, const TopSettings& settings,
                                   const Canvas& canvas, std::size_t height);

enum class KeyEffect { none, changed, quit };
// Keys come as a terminal sends them; an arrow is three bytes.
KeyEffect press(TopSettings& settings, std::string_view key);

}  // namespace cpprun
