// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/spawn.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

namespace worker_mark_test {

using namespace cpprun;

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

TEST_CASE(
    "a process with a run's mark belongs to the run, one with another mark or none does not") {
  const auto mark = make_worker_mark(17, unlimited);
  CHECK(is_marked(mark.value, mark));
  CHECK_FALSE(is_marked(make_worker_mark(18, unlimited).value, mark));
  CHECK_FALSE(is_marked(unlimited, mark));
  CHECK_FALSE(is_marked(0, mark));
  // A limit that was set on purpose, in microseconds.
  CHECK_FALSE(is_marked(17, mark));
  CHECK_FALSE(is_marked(200'000, mark));
}

TEST_CASE("a mark is a limit of more CPU time than any job uses, and less than unlimited") {
  constexpr std::uint64_t year = 365ULL * 24 * 3600 * 1'000'000;
  for (const std::uint32_t random : {0U, 1U, ~0U}) {
    const auto mark = make_worker_mark(random, unlimited);
    CHECK(mark.value > 10'000 * year);
    CHECK(mark.value < unlimited / 2);
  }
}

TEST_CASE("the workers of a cpprun within a worker are found by the outer and by the inner one") {
  const auto outer = make_worker_mark(1, unlimited);
  const auto inner = make_worker_mark(2, outer.value);
  const auto innermost = make_worker_mark(3, inner.value);
  CHECK(is_marked(inner.value, outer));
  CHECK(is_marked(innermost.value, outer));
  CHECK(is_marked(innermost.value, innermost));
  CHECK_FALSE(is_marked(outer.value, inner));
}

}  // namespace worker_mark_test
