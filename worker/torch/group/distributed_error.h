// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>

namespace cpprun {

// The message says what was attempted, with which ranks, and why it failed.
class DistributedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cpprun
