// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/messages.h"

#include <doctest/doctest.h>

#include "tests/worker/two_ranks.h"

namespace objects_test {

using namespace cpprun;
using testing::expect;

namespace {

struct Progress {
  int epoch = 0;
  double best = 0;
};

}  // namespace

TEST_CASE("strings of any length reach every rank") {
  CHECK(testing::on_ranks(3, [](const ProcessGroup& group) {
          const std::string mine(static_cast<std::size_t>(group.rank()), 'x');
          expect(broadcast_object(mine, group, 2) == "xx", "broadcast");
          expect(all_gather_object(mine, group) == std::vector<std::string>{"", "x", "xx"},
                 "all_gather");
          expect(gather_object(mine, group, 1).size() == (group.rank() == 1 ? 3U : 0U), "gather");
          const std::vector<std::string> dealt = {"a", "", "ccc"};
          const auto got =
              scatter_object(group.rank() == 0 ? dealt : std::vector<std::string>(), group);
          expect(got == dealt[static_cast<std::size_t>(group.rank())], "scatter");
        }) == "");
}

TEST_CASE("plain values arrive unchanged") {
  CHECK(testing::on_two_ranks([](const ProcessGroup& group) {
          Progress progress;
          if (group.rank() == 0) progress = {.epoch = 3, .best = 0.5};
          progress = broadcast_object(progress, group);
          expect(progress.epoch == 3 && progress.best == 0.5, "broadcast");
          if (group.rank() == 0) {
            send_object(std::string("hello"), 1, group);
          } else {
            expect(recv_object<std::string>(0, group) == "hello", "message");
          }
        }) == "");
}

TEST_CASE("an object of another type is rejected") {
  CHECK_THROWS_AS(from_bytes<double>("abc"), DistributedError);
}

}  // namespace objects_test
