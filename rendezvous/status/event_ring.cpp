// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/event_ring.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::string_view events_path = "/api/v1/events";
constexpr std::string_view once = "?once";

}  // namespace

std::string EventRing::said(std::uint64_t number, std::string_view line) const {
  return fmt::format("id: {}-{}\ndata: {}\n\n", run_, number, line);
}

// Empty if this run did not issue that id.
std::optional<std::uint64_t> EventRing::number_of(std::string_view id) const {
  const std::size_t dash = id.rfind('-');
  if (dash == std::string_view::npos || id.substr(0, dash) != run_) return std::nullopt;
  const auto number = exact_number<std::uint64_t>(id.substr(dash + 1));
  return number && *number <= last_ ? number : std::nullopt;
}

std::string EventRing::add(std::string_view line, const std::string& owner) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  lines_.push_back({std::string(line), owner});
  bytes_ += line.size();
  ++last_;
  while (lines_.size() > events_max_ || (bytes_ > bytes_max_ && lines_.size() > 1)) {
    bytes_ -= lines_.front().line.size();
    lines_.pop_front();
  }
  return said(last_, line);
}

std::string EventRing::since(std::string_view last_id,
                             const std::optional<std::string>& owner) const {
  const auto known = number_of(last_id);
  const std::uint64_t heard = known.value_or(0);
  const std::uint64_t first = last_ - lines_.size() + 1;
  std::string text;
  if (!last_id.empty() && !known) {
    text = ": Last-Event-ID is from another run; sending all stored events\n\n";
  }
  if (heard + 1 < first)
    text += fmt::format(": {} older events were dropped\n\n", first - heard - 1);
  for (std::uint64_t number = std::max(first, heard + 1); number <= last_; ++number) {
    const Event& event = lines_[static_cast<std::size_t>(number - first)];
    if (!owner || event.owner == *owner) text += said(number, event.line);
  }
  return text;
}

bool asks_for_events(const http::Request& request) {
  const std::string_view target = request.target;
  const bool is_look = request.method == http::Method::get || request.method == http::Method::head;
  if (!target.starts_with(events_path) || !is_look) return false;
  const auto rest = target.substr(events_path.size());
  return rest.empty() || rest == once;
}

http::Response events_answer(const EventRing& ring, const http::Request& request,
                             const std::optional<std::string>& owner) {
  std::string text = ring.since(request.last_event_id, owner);
  // An immediate line shows the client that the stream is open, so that it reconnects soon when it
  // breaks.
  if (text.empty()) text = ":\n\n";
  return {.type = "text/event-stream",
          .body = std::move(text),
          .goes_on = !request.target.ends_with(once)};
}

}  // namespace cpprun
