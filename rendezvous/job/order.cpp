// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proto/signal_names.h"

namespace cpprun {

namespace {

constexpr std::array names = {
    std::pair{Order::Kind::stop, std::string_view("stop")},
    std::pair{Order::Kind::restart, std::string_view("restart")},
    std::pair{Order::Kind::save, std::string_view("save")},
    std::pair{Order::Kind::drain, std::string_view("drain")},
    std::pair{Order::Kind::exclude, std::string_view("exclude")},
    std::pair{Order::Kind::include, std::string_view("include")},
    std::pair{Order::Kind::forget, std::string_view("forget")},
    std::pair{Order::Kind::handover, std::string_view("handover")},
};

}  // namespace

std::string_view name_of(Order::Kind kind) {
  return std::ranges::find(names, kind, [](const auto& each) { return each.first; })->second;
}

std::optional<Order::Kind> order_kind(std::string_view name) {
  const auto found = std::ranges::find(names, name, [](const auto& each) { return each.second; });
  if (found == names.end()) return std::nullopt;
  return found->first;
}

std::string_view name_of(OrderOutcome::Kind kind) {
  switch (kind) {
    case OrderOutcome::Kind::done:
      return "done";
    case OrderOutcome::Kind::malformed:
      return "malformed";
    case OrderOutcome::Kind::unknown:
      return "unknown";
    case OrderOutcome::Kind::not_now:
      return "not_now";
  }
  return "";
}

std::string told_by(const Order& order, std::string_view what) {
  const std::string colon = order.reason.empty() ? "" : ": ";
  return fmt::format("{} {}{}{}", order.by, what, colon, order.reason);
}

std::string text_of(const Order& order) {
  const bool is_handover = order.kind == Order::Kind::handover;
  std::string text =
      fmt::format("{} asks to {}", order.by, is_handover ? "hand over" : name_of(order.kind));
  if (!order.whom.empty()) text += fmt::format(" \"{}\"", order.whom);
  if (!order.whom.empty() && !order.job.empty()) text += " of";
  if (!order.job.empty()) text += fmt::format(" job \"{}\"", order.job);
  if (!order.reason.empty()) text += fmt::format(" ({})", order.reason);
  return text;
}

std::optional<std::string> objection_to_signal(int signal) {
  if (!asks_to_end(signal)) return std::nullopt;
  return fmt::format(
      "{} would terminate or suspend the workers; use a signal that they handle: SIGUSR1, SIGUSR2, "
      "SIGWINCH, SIGCONT, SIGURG or SIGIO",
      signal_name(signal));
}

}  // namespace cpprun
