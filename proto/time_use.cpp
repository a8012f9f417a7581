// SPDX-License-Identifier: BSD-3-Clause
#include "proto/time_use.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace cpprun {

namespace {

// Causes named in a line; the others are added up.
constexpr std::size_t causes_named_max = 3;

// Unlike in_seconds(), without conversion to nanoseconds, which could overflow.
double seconds_of(NodeDuration time) {
  return std::chrono::duration<double>(time).count();
}

NodeDuration lost_by(const LostTime& lost) {
  return sum_of(lost.time) - of(lost.time, Account::standing_by);
}

std::string lost_text(const LostTime& lost, double nodes) {
  const std::string span = span_text(seconds_of(lost_by(lost)) / nodes);
  if (lost.count == 0) return fmt::format("{} (startup)", span);
  const std::string times = lost.count == 1 ? "" : fmt::format("{} × ", lost.count);
  const std::string where = lost.host.empty() ? "" : fmt::format(" on {}", lost.host);
  return fmt::format("{} ({}{}{})", span, times, lost.cause, where);
}

}  // namespace

std::string span_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<long long>(seconds / 60 + 0.5);
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} days {} h", minutes / (24 * 60), minutes / 60 % 24);
}

std::string_view name_of(Account account) {
  constexpr std::array<std::string_view, account_count> names = {
      "waiting_for_nodes", "rendezvous", "starting", "training",   "detecting",
      "draining",          "pausing",    "redoing",  "standing_by"};
  return names[static_cast<std::size_t>(account)];
}

NodeDuration sum_of(const NodeTime& time) {
  return std::accumulate(time.begin(), time.end(), NodeDuration{});
}

std::size_t failures_of(const TimeUse& use) {
  const auto add = [](std::size_t sum, const LostTime& lost) { return sum + lost.count; };
  return std::accumulate(use.lost.begin(), use.lost.end(), std::size_t{0}, add);
}

std::string to_text(const TimeUse& use) {
  const double wall = seconds_of(use.wall);
  const double all = seconds_of(sum_of(use.nodes));
  const double spare = seconds_of(of(use.nodes, Account::standing_by));
  const double busy = all - spare;
  if (wall <= 0 || busy <= 0) return "no time elapsed";
  const double nodes = all / wall;
  const double share = 100 * seconds_of(of(use.nodes, Account::training)) / busy;
  std::string text = fmt::format("training {:.1f} % of {}", share, span_text(wall));
  // Rounded, so that a node that joined a moment later than the others counts as a whole one. Not
  // std::round, which would make programs of one launch load the math library.
  const auto tenths = static_cast<std::int64_t>(10 * nodes + 0.5);
  if (nodes > 1.05) text += fmt::format(" × {:g} nodes", static_cast<double>(tenths) / 10);
  std::vector<LostTime> lost = use.lost;
  std::erase_if(lost, [](const LostTime& each) { return lost_by(each) <= NodeDuration{}; });
  std::stable_sort(lost.begin(), lost.end(), [](const LostTime& left, const LostTime& right) {
    return lost_by(left) > lost_by(right);
  });
  // A cause is shown as what it added to the job's duration: its nodes' time divided by their
  // number.
  const double working = std::max(busy / wall, 1e-9);
  std::vector<std::string> parts;
  double others = 0;
  for (const LostTime& each : lost) {
    if (parts.size() < causes_named_max) {
      parts.push_back(lost_text(each, working));
    } else {
      others += seconds_of(lost_by(each)) / working;
    }
  }
  if (others > 0) parts.push_back(fmt::format("{} (other causes)", span_text(others)));
  if (!parts.empty()) text += fmt::format("; lost: {}", fmt::join(parts, ", "));
  return text;
}

}  // namespace cpprun
