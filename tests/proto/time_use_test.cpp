// SPDX-License-Identifier: BSD-3-Clause
#include "proto/time_use.h"

#include <doctest/doctest.h>

#include <set>

namespace time_use_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

LostTime lost(std::string cause, std::size_t count, NodeDuration time) {
  LostTime lost{.cause = std::move(cause), .count = count};
  of(lost.time, Account::draining) = time;
  return lost;
}

}  // namespace

TEST_CASE("a job's time is a sentence") {
  TimeUse use{.wall = 100s};
  of(use.nodes, Account::training) = 180s;
  of(use.nodes, Account::draining) = 20s;
  use.lost = {lost("start", 0, 4s), lost("out_of_memory", 2, 16s)};
  use.lost[1].host = "node-7";
  CHECK(to_text(use) ==
        "training 90.0 % of 2 min × 2 nodes; lost: 8.0 s (2 × out_of_memory on node-7), 2.0 s "
        "(startup)");
  CHECK(failures_of(use) == 2);
}

TEST_CASE("of many causes three are named") {
  TimeUse use{.wall = 3h};
  of(use.nodes, Account::training) = 2h;
  of(use.nodes, Account::draining) = 1h;
  for (int i = 1; i <= 5; ++i) use.lost.push_back(lost("c" + std::to_string(i), 1, i * 4min));
  CHECK(to_text(use) ==
        "training 66.7 % of 3 h 0 min; lost: 20 min (c5), 16 min (c4), 12 min (c3), 12 min "
        "(other causes)");
}

TEST_CASE("spares are excluded from the share and from the time of a cause") {
  TimeUse use{.wall = 10s};
  of(use.nodes, Account::training) = 9s;
  of(use.nodes, Account::draining) = 1s;
  of(use.nodes, Account::standing_by) = 10s;
  use.lost = {lost("killed", 1, 1s)};
  CHECK(to_text(use) == "training 90.0 % of 10 s × 2 nodes; lost: 1.0 s (killed)");
}

TEST_CASE("a node count is rounded to one decimal") {
  TimeUse use{.wall = 60s};
  of(use.nodes, Account::training) = 119'900ms;
  CHECK(to_text(use) == "training 100.0 % of 60 s × 2 nodes");
  of(use.nodes, Account::training) = 90s;
  CHECK(to_text(use) == "training 100.0 % of 60 s × 1.5 nodes");
}

TEST_CASE("ten thousand nodes may work for three years") {
  TimeUse use{.wall = std::chrono::hours{24 * 365 * 3}};
  of(use.nodes, Account::training) = use.wall * 10'000;
  CHECK(to_text(use) == "training 100.0 % of 1095 days 0 h × 10000 nodes");
  CHECK(sum_of(use.nodes) <= time_use_max);
  NodeTime longest;
  longest.fill(time_use_max);
  CHECK(sum_of(longest) > NodeDuration{});
}

TEST_CASE("a job without events has no time report") {
  CHECK(to_text(TimeUse{}) == "no time elapsed");
}

TEST_CASE("every account has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < account_count; ++i) names.insert(name_of(static_cast<Account>(i)));
  CHECK(names.size() == account_count);
}

}  // namespace time_use_test
