// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/failures.h"

#include <doctest/doctest.h>

#include "proto/bounds.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

Failures::Entry end_of(int rank, TimePoint at, bool consequence = false, bool lost = false) {
  return {.failure = {.rank = Rank{rank}, .status = {false, 1}, .consequence = consequence},
          .at = at,
          .lost = lost};
}

}  // namespace

TEST_CASE("nothing failed: there is no root") {
  CHECK(Failures{}.root() == nullptr);
  CHECK(Failures{}.consequence_count() == 0);
}

TEST_CASE("the earliest is the root, in whatever order they are heard of") {
  Failures failures;
  failures.add(end_of(1, t0 + 2s));
  failures.add(end_of(2, t0 + 1s));
  failures.add(end_of(3, t0 + 3s));
  CHECK(failures.root()->failure.rank == Rank{2});
  CHECK(failures.consequences()[0].rank == Rank{1});
  CHECK(failures.consequences()[1].rank == Rank{3});
}

TEST_CASE("a known consequence is never the root while there is another, however early it was") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s, true));
  CHECK(failures.root()->failure.rank == Rank{1});
  failures.add(end_of(2, t0 + 9s));
  CHECK(failures.root()->failure.rank == Rank{2});
}

TEST_CASE("a lost node comes before those who missed it, even in the same moment") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s));
  failures.add(end_of(6, t0 + 1s, false, true));
  CHECK(failures.root()->lost);
}

TEST_CASE("a worker that is told of again is counted once") {
  Failures failures;
  failures.add(end_of(1, t0));
  failures.add(end_of(1, t0 + 1s));
  CHECK(failures.consequence_count() == 0);
}

TEST_CASE("of a dying world some are kept, the root among them, and all are counted") {
  Failures failures;
  for (int rank = 1; rank <= 1000; ++rank) failures.add(end_of(rank, t0 + 2s, true));
  failures.add(end_of(0, t0 + 5s));
  CHECK(failures.root()->failure.rank == Rank{0});
  CHECK(failures.consequences().size() == bounds::consequences_max);
  CHECK(failures.consequence_count() == 1000);
}

TEST_CASE("what ended badly after a moment is forgotten, a lost node is not") {
  Failures failures;
  failures.add(end_of(1, t0 + 1s));
  failures.add(end_of(2, t0 + 2s));
  failures.add(end_of(3, t0 + 2s, false, true));
  failures.drop_ends_after(t0 + 1s);
  CHECK(failures.root()->failure.rank == Rank{1});
  REQUIRE(failures.consequence_count() == 1);
  CHECK(failures.consequences()[0].rank == Rank{3});
  failures.drop_ends_after(t0);
  CHECK(failures.root()->failure.rank == Rank{3});
  CHECK(failures.consequence_count() == 0);
}
