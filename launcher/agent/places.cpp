// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/places.h"

#include <algorithm>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

Places::Places(const Endpoint& first, std::vector<Endpoint> named)
    : named_(std::move(named)), led_last_(first), at_(first) {}

std::vector<Endpoint> Places::all() const {
  std::vector<Endpoint> all{led_last_};
  const auto add = [&all](const Endpoint& place) {
    if (std::ranges::find(all, place) == all.end()) all.push_back(place);
  };
  std::ranges::for_each(told_, add);
  std::ranges::for_each(named_, add);
  if (hinted_) add(*hinted_);
  return all;
}

bool Places::was_asked(const Endpoint& place) const {
  return std::ranges::find(asked_, place) != asked_.end();
}

std::optional<Endpoint> Places::left() const {
  if (hinted_ && !was_asked(*hinted_)) return hinted_;
  for (const Endpoint& each : all()) {
    if (!was_asked(each)) return each;
  }
  return std::nullopt;
}

const Endpoint& Places::next() {
  auto place = left();
  if (!place) {
    begin_turn();
    ++turns_;
    place = left();
  }
  at_ = *place;
  asked_.push_back(at_);
  leads_ = false;
  return at_;
}

void Places::begin_turn() {
  asked_.clear();
  hints_ = 0;
}

void Places::leads() {
  leads_ = true;
  led_last_ = at_;
  hinted_.reset();
  turns_ = 0;
}

// Of its own word, so that another turn begins, in which it was asked.
void Places::leads_no_more() {
  if (!std::exchange(leads_, false)) return;
  begin_turn();
  asked_.push_back(at_);
}

void Places::hint(const Endpoint& there) {
  if (!was_asked(at_)) asked_.push_back(at_);
  // Whoever sends us on and on, to places without an end, is not followed for ever.
  if (hints_ == static_cast<int>(bounds::members_max)) return;
  ++hints_;
  hinted_ = there;
}

bool Places::lost(bool fell_silent) {
  if (std::exchange(leads_, false)) {
    begin_turn();
    if (fell_silent) asked_.push_back(at_);
    return !fell_silent;
  }
  return !left();
}

}  // namespace cpprun
