// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/held_words.h"

#include <algorithm>
#include <utility>

namespace cpprun {

void HeldWords::wait_for(std::uint64_t number) {
  awaited_ = std::max(awaited_, number);
}

bool HeldWords::hold(const coordinator::Action& action) {
  if (awaited_ <= written_ && held_.empty()) return false;
  held_.push_back({awaited_, action});
  return true;
}

void HeldWords::written(std::uint64_t through) {
  written_ = std::max(written_, through);
}

std::optional<coordinator::Action> HeldWords::next() {
  if (held_.empty() || held_.front().number > written_) return std::nullopt;
  coordinator::Action action = std::move(held_.front().action);
  held_.pop_front();
  return action;
}

}  // namespace cpprun
