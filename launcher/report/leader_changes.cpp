// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/leader_changes.h"

#include <utility>

namespace cpprun {

void LeaderChanges::add(LeaderChange change) {
  if (changes_.size() >= leader_changes_max) {
    changes_.erase(changes_.begin());
    ++left_out_;
  }
  changes_.push_back(std::move(change));
}

}  // namespace cpprun
