// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/attempts.h"

#include "proto/bounds.h"

namespace cpprun {

void Attempts::begin(WallTime now, const link::Sealed& sealed) {
  if (!attempts_.empty()) {
    Attempt& before = attempts_.back();
    before.ended = now;
    const bool is_next = before.round.value + 1 == sealed.round.value;
    const auto& verdict = sealed.failed_before;
    // Of its own worker this node knows more than the message has room for.
    const bool is_own = before.failure && verdict && before.failure->pid == verdict->pid &&
                        before.failure->rank == verdict->rank;
    if (is_next && verdict && !is_own) before.failure = verdict;
  }
  attempts_.push_back(
      {.round = sealed.round, .restart = sealed.restart_count, .began = now, .reason = ""});
  constexpr auto first = bounds::first_attempts_kept_max;
  if (attempts_.size() <= first + bounds::last_attempts_kept_max) return;
  attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(first));
  ++left_out_;
}

void Attempts::draining(const std::string& reason) {
  if (!attempts_.empty() && attempts_.back().reason.empty()) attempts_.back().reason = reason;
}

void Attempts::failed(const link::Failure& failure) {
  if (attempts_.empty()) return;
  auto& known = attempts_.back().failure;
  if (!known || (known->consequence && !failure.consequence)) known = failure;
}

void Attempts::judged(const link::Failure& root) {
  if (!attempts_.empty()) attempts_.back().failure = root;
}

std::vector<Attempt> Attempts::list(WallTime now) const {
  auto all = attempts_;
  if (!all.empty() && all.back().ended == WallTime{}) all.back().ended = now;
  return all;
}

}  // namespace cpprun
