// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A diagnosed exit, made as in the product: by the pending failures of an attempt.

#include <utility>

#include "launcher/failure/diagnosis.h"

namespace cpprun::testing {

inline DiagnosedEnd diagnosed(Evidence evidence) {
  return PendingFailures{}.judge(std::move(evidence), {}).end;
}

}  // namespace cpprun::testing
