// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How much a leader keeps in etcd, so that the next one can read all of it: by name, in its own
// words.

#include <cstddef>
#include <string>
#include <unordered_map>

#include "proto/result.h"

namespace cpprun {

class RecordSizes {
 public:
  // Why that record may not be kept, as a clause; otherwise it counts from now on.
  Result<void> keep(const std::string& name, std::size_t bytes);
  void drop(const std::string& name);
  // It was found; nobody can refuse it any more.
  void found(const std::string& name, std::size_t bytes);
  void clear();

  std::size_t count() const { return sizes_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::size_t> sizes_;
  std::size_t bytes_ = 0;  // of all of them
};

}  // namespace cpprun
