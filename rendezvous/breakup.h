#pragma once
// Why a round breaks, as far as it is known while its nodes still end their workers: what failed,
// who was asked to stop, or that only the membership changes. When nobody is left it says how a job
// without another round ends.

#include <optional>
#include <string>

#include "proto/link/message.h"

namespace cpprun {

struct Breakup {
  std::string reason = {};                 // completes "ending the workers: …"
  std::optional<link::Failure> root = {};  // what failed first
  std::optional<link::Leave> stop = {};    // somebody was asked to stop the job
  bool change = false;                     // only who is here has changed
};

// The end of a job whose last round broke like that.
link::Finish finish_of(const Breakup& breakup);

}  // namespace cpprun
