// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/request.h"

#include <algorithm>

namespace cpprun::c10d {

bool operator==(const Check& left, const Check& right) {
  return std::ranges::equal(left.keys, right.keys);
}
bool operator==(const Wait& left, const Wait& right) {
  return std::ranges::equal(left.keys, right.keys);
}
bool operator==(const MultiGet& left, const MultiGet& right) {
  return std::ranges::equal(left.keys, right.keys);
}
bool operator==(const MultiSet& left, const MultiSet& right) {
  return std::ranges::equal(left.entries, right.entries);
}
bool operator==(const Values& left, const Values& right) {
  return std::ranges::equal(left.values, right.values);
}
bool operator==(const Keys& left, const Keys& right) {
  return std::ranges::equal(left.keys, right.keys);
}

}  // namespace cpprun::c10d
