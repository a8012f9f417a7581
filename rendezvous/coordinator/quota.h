// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How much of something one source may have at a time, so that a single machine cannot take all of
// it from the others. A source is an IPv4 address, or the first 64 bits of an IPv6 one: whoever has
// one of those has all 2^64 addresses that begin with it.

#include <cstddef>
#include <string>
#include <unordered_map>

namespace cpprun {

// Of a numeric address: "10.0.0.1" of that and of ::ffff:10.0.0.1, "2001:db8:1:2::/64".
std::string source_of(const std::string& address);

class Quota {
 public:
  explicit Quota(std::size_t most) : most_(most) {}

  // False: that source has all it may have.
  bool take(const std::string& address);
  // One of those that were taken is free again.
  void give_back(const std::string& address);
  std::size_t most() const { return most_; }
  std::size_t taken(const std::string& address) const;

 private:
  std::size_t most_;
  std::unordered_map<std::string, std::size_t> taken_;  // by source; never zero
};

}  // namespace cpprun
