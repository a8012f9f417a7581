// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdexcept>

namespace cpprun {

// What was tried, with whom, and why it failed.
class DistributedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cpprun
