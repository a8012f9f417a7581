// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report.h"

#include <doctest/doctest.h>

namespace leader_changes_test {

using namespace cpprun;

TEST_CASE("the last changes are kept, and earlier ones are counted") {
  ReportFacts facts;
  for (std::size_t epoch = 1; epoch <= leader_changes_max + 2; ++epoch) {
    facts.hear({}, events::LeaderChanged{.epoch = epoch});
  }
  CHECK(facts.leader_changes.size() == leader_changes_max);
  CHECK(facts.leader_changes_left_out == 2);
  CHECK(facts.leader_changes.front().second.epoch == 3);
}

}  // namespace leader_changes_test
