#include "rendezvous/job/breakup.h"

#include <algorithm>

namespace cpprun {

void Breakup::polite_since(TimePoint asked, const std::string& why) {
  at = std::min(at, asked);
  const bool had_failed = !failures.empty();
  failures.drop_ends_after(asked);
  if (had_failed && failures.empty()) reason = why;
}

link::Finish finish_of(const Breakup& breakup) {
  const Failures::Entry* root = breakup.failures.root();
  if (root == nullptr || (breakup.stop && root->failure.consequence)) {
    const bool by_signal = breakup.stop && breakup.stop->signal != 0;
    return {.exit_code = by_signal ? 128 + breakup.stop->signal : 1, .reason = breakup.reason};
  }
  // Whatever a node says of its worker: a job that has failed does not end with 0.
  const int code = link::exit_code_of(root->failure.status);
  return {.exit_code = code == 0 ? 1 : code,
          .reason = root->what,
          .root = root->failure,
          .consequences = breakup.failures.consequences(),
          .consequence_count = static_cast<int>(breakup.failures.consequence_count())};
}

}  // namespace cpprun
