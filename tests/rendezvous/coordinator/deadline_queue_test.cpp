// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/job_table.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace deadline_queue_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the earliest deadline is next after every change") {
  DeadlineQueue deadline_queue;
  CHECK_FALSE(deadline_queue.next());
  deadline_queue.plan("a", t0 + 5s);
  deadline_queue.plan("b", t0 + 3s);
  deadline_queue.plan("c", t0 + 4s);
  CHECK(deadline_queue.next() == t0 + 3s);
  deadline_queue.plan("b", t0 + 9s);  // later
  CHECK(deadline_queue.next() == t0 + 4s);
  deadline_queue.plan("a", t0 + 1s);  // earlier
  CHECK(deadline_queue.next() == t0 + 1s);
  CHECK(deadline_queue.deadline_of("a") == t0 + 1s);
  deadline_queue.plan("a", std::nullopt);
  CHECK_FALSE(deadline_queue.deadline_of("a"));
  deadline_queue.plan("unknown", std::nullopt);
  CHECK(deadline_queue.next() == t0 + 4s);
  CHECK(deadline_queue.size() == 2);
}

TEST_CASE("due entries are removed, the earliest first and then by name") {
  DeadlineQueue deadline_queue;
  deadline_queue.plan("late", t0 + 3s);
  deadline_queue.plan("y", t0 + 2s);
  deadline_queue.plan("x", t0 + 2s);
  deadline_queue.plan("z", t0 + 1s);
  CHECK(deadline_queue.take_due(t0).empty());
  CHECK(deadline_queue.take_due(t0 + 2s) == Names{"z", "x", "y"});
  CHECK(deadline_queue.take_due(t0 + 2s).empty());
  CHECK(deadline_queue.next() == t0 + 3s);
}

TEST_CASE("ten thousand random changes agree with a sorted list") {
  DeadlineQueue deadline_queue;
  std::map<std::string, TimePoint> plain;
  std::minstd_rand random(7);
  for (int step = 0; step < 10'000; ++step) {
    const std::string who = std::to_string(random() % 50);
    if (random() % 4 == 0) {
      deadline_queue.plan(who, std::nullopt);
      plain.erase(who);
    } else {
      const TimePoint when = t0 + std::chrono::milliseconds(random() % 1000);
      deadline_queue.plan(who, when);
      plain[who] = when;
    }
    std::optional<TimePoint> earliest;
    for (const auto& [name, when] : plain) {
      if (!earliest || when < *earliest) earliest = when;
    }
    REQUIRE(deadline_queue.next() == earliest);
    REQUIRE(deadline_queue.size() == plain.size());
  }
  CHECK(deadline_queue.take_due(t0 + 1s).size() == plain.size());
  CHECK_FALSE(deadline_queue.next());
}

}  // namespace deadline_queue_test
