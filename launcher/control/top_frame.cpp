// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/top_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::size_t page_rows = 10;
constexpr std::string_view keys =
    "q quit · sort by n number, h host, s state, l last heard, t since · r reverse · up/down";

// Nodes without a number come after those that have one.
std::tuple<bool, int> number_of(const NodeView& node) {
  return {!node.node, node.node.value_or(0)};
}

bool stands_before(const NodeView& left, const NodeView& right, TopOrder order) {
  const auto by = [&](const auto& key_of) {
    const auto mine = key_of(left);
    const auto theirs = key_of(right);
    return mine == theirs ? number_of(left) < number_of(right) : mine < theirs;
  };
  switch (order) {
    case TopOrder::number:
      return number_of(left) < number_of(right);
    case TopOrder::host:
      return by([](const NodeView& node) { return node.host; });
    case TopOrder::state:
      return by([](const NodeView& node) { return node.state; });
    case TopOrder::heard:
      // Nodes with the longest silence first, because users look for those.
      return by([](const NodeView& node) { return -node.silence.value_or(-1); });
    case TopOrder::since:
      return by([](const NodeView& node) { return -node.since; });
  }
  return false;
}

bool stands_before(const SeenJob& left, const SeenJob& right, TopOrder order) {
  if (order == TopOrder::state && left.job.state != right.job.state) {
    return left.job.state < right.job.state;
  }
  const auto since_of = [](const SeenJob& seen) { return -seen.job.since.value_or(0); };
  if (order == TopOrder::since && since_of(left) != since_of(right)) {
    return since_of(left) < since_of(right);
  }
  return std::tie(left.job.id, left.place) < std::tie(right.job.id, right.place);
}

template <class Rows>
Rows sorted(Rows rows, const TopSettings& settings) {
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& left, const auto& right) {
    return stands_before(left, right, settings.order);
  });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

// The latest round with a failure.
std::string last_failure(const JobView& job) {
  for (auto at = job.rounds.rbegin(); at != job.rounds.rend(); ++at) {
    if (at->failure) return "last failure: " + failure_text(*at->failure);
  }
  return "no worker has failed";
}

std::vector<std::string> head_of(const TopView& view, const Canvas& canvas) {
  std::vector<std::string> lines;
  if (view.job) {
    lines.push_back(clipped(job_sentence(*view.job), canvas.width));
    const auto& waits = view.job->waits_for;
    lines.push_back(clipped(waits.empty() ? last_failure(*view.job) : waits, canvas.width));
  } else {
    lines.push_back(clipped(fmt::format("{} jobs", view.jobs.size()), canvas.width));
  }
  if (view.job && !view.job->warnings.empty()) {
    const std::string warning = "warning: " + plain_line(view.job->warnings.front());
    lines.push_back(tinted(clipped(warning, canvas.width), Tint::bad, canvas.has_colour));
  }
  if (!view.trouble.empty()) {
    lines.push_back(tinted(clipped(view.trouble, canvas.width), Tint::bad, canvas.has_colour));
  }
  lines.emplace_back();
  return lines;
}

}  // namespace

std::vector<std::string> top_frame(const TopView& view, const TopSettings& settings,
                                   const Canvas& canvas, std::size_t height) {
  auto lines = head_of(view, canvas);
  const Table table = view.job ? nodes_table(sorted(view.nodes, settings), view.job->now)
                               : jobs_table(sorted(view.jobs, settings));
  const auto rows = lines_of(table, canvas);
  constexpr std::size_t around = 2;  // the header row and the keys
  const std::size_t room = height > lines.size() + around ? height - lines.size() - around : 0;
  const std::size_t count = rows.size() - 1;
  const std::size_t first = std::min(settings.first, count > room ? count - room : 0);
  lines.push_back(rows.front());
  for (std::size_t at = first; at < count && at - first < room; ++at) lines.push_back(rows[at + 1]);
  std::string foot(keys);
  if (count > room) foot = fmt::format("{}-{} of {} · {}", first + 1, first + room, count, foot);
  lines.push_back(tinted(clipped(foot, canvas.width), Tint::faint, canvas.has_colour));
  if (lines.size() > height) lines.resize(height);
  return lines;
}

KeyEffect press(TopSettings& settings, std::string_view key) {
  const auto order_by = [&](TopOrder order) {
    settings.order = order;
    return KeyEffect::changed;
  };
  const auto move = [&](std::ptrdiff_t rows) {
    const auto now = static_cast<std::ptrdiff_t>(settings.first);
    settings.first = static_cast<std::size_t>(std::max<std::ptrdiff_t>(now + rows, 0));
    return KeyEffect::changed;
  };
  constexpr auto page = static_cast<std::ptrdiff_t>(page_rows);
  if (key == "q" || key == "Q") return KeyEffect::quit;
  if (key == "n") return order_by(TopOrder::number);
  if (key == "h") return order_by(TopOrder::host);
  if (key == "s") return order_by(TopOrder::state);
  if (key == "l") return order_by(TopOrder::heard);
  if (key == "t") return order_by(TopOrder::since);
  if (key == "r") {
    settings.is_reversed = !settings.is_reversed;
    return KeyEffect::changed;
  }
  if (key == "\x1b[A" || key == "k") return move(-1);
  if (key == "\x1b[B" || key == "j") return move(1);
  if (key == "\x1b[5~") return move(-page);
  if (key == "\x1b[6~" || key == " ") return move(page);
  return KeyEffect::none;
}

}  // namespace cpprun
