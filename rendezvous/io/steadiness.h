// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Keeping leases is little work that has to be done in time, even on a machine short of everything.
// So its pages stay in memory and its turn comes early, as far as the kernel allows.

namespace cpprun {

struct Steadiness {
  bool locked = false;  // what is in memory now stays there
  bool raised = false;  // before processes of ordinary priority
};

Steadiness hold_steady();

}  // namespace cpprun
