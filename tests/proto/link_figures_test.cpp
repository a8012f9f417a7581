// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/message.h"

#include <doctest/doctest.h>

namespace link_figures_test {

using namespace cpprun;
using namespace cpprun::link;
using namespace std::chrono_literals;

TEST_CASE("statistics are whole numbers, and -1 if unknown") {
  const WorkerStats figures{.local_rank = LocalRank{2},
                            .pid = 7,
                            .state = WorkerState::ending,
                            .since = 1500ms,
                            .step = 9,
                            .last_beat = 0s};
  CHECK(row_of(figures) == FiguresRow{2, 7, 2, 1500, 9, -1, -1, -1, 0, -1, -1, -1});
  CHECK(figures_of(row_of(figures)) == figures);
}

TEST_CASE("an impossible number is named") {
  FiguresRow row = row_of({});
  row[2] = 5;
  CHECK(figures_of(row).error().reason == "state=5 is out of range");
  CHECK(name_of_column(2) == "state");
  CHECK(to_text(WorkerState::succeeded) == "succeeded");
}

}  // namespace link_figures_test
