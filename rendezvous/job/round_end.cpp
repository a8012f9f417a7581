// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round_end.h"

#include <algorithm>

namespace cpprun {

void RoundEnd::come_to(const link::Reached& far) {
  reached.step = std::max(reached.step, far.step);
  reached.checkpoint_step = std::max(reached.checkpoint_step, far.checkpoint_step);
}

void RoundEnd::polite_since(TimePoint asked, const std::string& why) {
  at = std::min(at, asked);
  const bool had_failed = !failures.empty();
  failures.drop_ends_after(asked);
  if (had_failed && failures.empty()) reason = why;
}

link::Finish finish_of(const RoundEnd& round_end) {
  const Failures::Entry* root = round_end.failures.root();
  if (root == nullptr || (round_end.stop && round_end.failures.all_follow())) {
    const bool by_signal = round_end.stop && round_end.stop->signal != 0;
    return {.exit_code = by_signal ? 128 + round_end.stop->signal : 1, .reason = round_end.reason};
  }
  // Whatever a node says of its worker: a job that has failed does not end with 0.
  const int code = link::exit_code_of(root->failure.status);
  return {.exit_code = code == 0 ? 1 : code,
          .reason = root->what,
          .root = root->failure,
          .consequences = round_end.failures.consequences(),
          .consequence_count = static_cast<int>(round_end.failures.consequence_count())};
}

}  // namespace cpprun
