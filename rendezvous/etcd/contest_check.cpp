// SPDX-License-Identifier: BSD-3-Clause
// What must always be so about a Contest.
#include <algorithm>

#include "rendezvous/etcd/contest.h"

namespace cpprun {

std::optional<std::string> Contest::check() const {
  const bool has_lease = phase_ == Phase::standing || phase_ == Phase::finding_out || has_won();
  if (has_lease != tenure_.has_value())
    return "it stands or leads without a lease, or has one idly";
  if (fenced_ && !has_won()) return "it changes what is not its own";
  if (has_won() && fence_.epoch() != options_.memory.epoch) return "its epoch is not the highest";
  if (!has_won() && queue_.has_more()) return "it would write without leading";
  if (phase_ == Phase::granting && !lanes_.is_asked(Lane::lease, Step::grant)) {
    return "it waits for a lease that it has not asked for";
  }
  if (has_won() && barred_) return "it leads what it objects to";
  if (told_leader_ && told_nobody_) return "it has told two things about who leads";
  const auto is_held = [this](const Unused& each) { return tenure_ && tenure_->owns(each.id); };
  if (std::ranges::any_of(unused_, is_held)) return "it takes back the lease that it leads by";
  return queue_.check();
}

}  // namespace cpprun
