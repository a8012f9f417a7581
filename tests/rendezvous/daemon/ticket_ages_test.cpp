// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_journal.h"

#include <doctest/doctest.h>

namespace ticket_ages_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("the oldest pending ticket determines the age") {
  const TimePoint begin{};
  TicketAges ages;
  CHECK_FALSE(ages.oldest());
  ages.add(1, begin);
  ages.add(2, begin + 10ms);
  ages.add(3, begin + 100ms);
  ages.add(4, begin + 300ms);
  CHECK(ages.oldest() == begin);
  ages.done(1);
  CHECK(ages.oldest() == begin);  // both tickets have the same time
  ages.done(2);
  CHECK(ages.oldest() == begin + 100ms);
  ages.done(3);
  CHECK(ages.oldest() == begin + 300ms);
  ages.done(4);
  CHECK_FALSE(ages.oldest());
  ages.add(5, begin + 400ms);
  CHECK(ages.oldest() == begin + 400ms);
}

}  // namespace ticket_ages_test
