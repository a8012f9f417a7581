// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Whoever keeps leases has little to do, and has to do it in time on a machine that has not enough
// of anything: its pages stay in memory and its turn comes early, as far as the kernel lets us.

namespace cpprun {

struct Steadiness {
  bool locked = false;  // what is in memory now stays there
  bool raised = false;  // before processes of ordinary priority
};

Steadiness hold_steady();

}  // namespace cpprun
