// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A declaration of what ProcessGroupGloo.hpp uses: gloo_shim/README.md says why.

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
