#include "rendezvous/breakup.h"

namespace cpprun {

link::Finish finish_of(const Breakup& breakup) {
  const bool by_signal = breakup.stop && breakup.stop->signal != 0;
  const int stop_code = by_signal ? 128 + breakup.stop->signal : 1;
  const int code = breakup.root ? link::exit_code_of(breakup.root->status) : stop_code;
  return {.exit_code = code, .reason = breakup.reason, .root = breakup.root};
}

}  // namespace cpprun
