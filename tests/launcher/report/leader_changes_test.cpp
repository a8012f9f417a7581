// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/report.h"

#include <doctest/doctest.h>

namespace leader_changes_test {

using namespace cpprun;

TEST_CASE("the last changes are kept, and earlier ones are counted") {
  LeaderChanges changes;
  for (std::size_t epoch = 1; epoch <= leader_changes_max + 2; ++epoch) {
    changes.add({.epoch = epoch});
  }
  CHECK(changes.list().size() == leader_changes_max);
  CHECK(changes.left_out() == 2);
  CHECK(changes.list().front().epoch == 3);
}

}  // namespace leader_changes_test
