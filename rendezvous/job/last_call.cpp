// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/last_call.h"

namespace cpprun {

bool LastCall::may_seal(TimePoint now, std::size_t here) {
  if (here < seats_.min) {
    over_at_.reset();
    return false;
  }
  if (here >= seats_.max) return true;
  if (!over_at_) over_at_ = now + seals_after_;
  return *over_at_ <= now;
}

bool LastCall::may_grow(TimePoint now, std::size_t seated, std::size_t waiting) {
  if (waiting == 0 || seated >= seats_.max) {
    over_at_.reset();
    return false;
  }
  if (!over_at_) over_at_ = now + length_;
  return seated + waiting >= seats_.max || *over_at_ <= now;
}

}  // namespace cpprun
