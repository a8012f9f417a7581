// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/examination.h"

#include <doctest/doctest.h>

namespace others_test {

using namespace cpprun::doctor;

namespace {

std::vector<Target> ring(int count) {
  std::vector<Target> all;
  for (int number = 0; number < count; ++number) all.push_back({.number = number});
  return all;
}

std::vector<int> numbers_of(const std::vector<Target>& targets) {
  std::vector<int> numbers;
  for (const auto& each : targets) numbers.push_back(each.number);
  return numbers;
}

}  // namespace

TEST_CASE("a few hosts test connections to all others") {
  CHECK(numbers_of(others_of(1, ring(4))) == std::vector<int>{2, 3, 0});
  CHECK(others_of(0, ring(1)).empty());
}

TEST_CASE("each of many hosts tests its successors and the first host") {
  const auto others = numbers_of(others_of(40, ring(100)));
  REQUIRE(others.size() == others_max + 1);
  CHECK(others.front() == 41);
  CHECK(others[others_max - 1] == 72);
  CHECK(others.back() == 0);
  CHECK(others_of(90, ring(100)).size() == others_max);  // the first host is one of them
  CHECK(others_of(0, ring(100)).size() == others_max);
}

TEST_CASE("a host that is not in the list tests no others") {
  CHECK(others_of(7, ring(3)).empty());
}

}  // namespace others_test
