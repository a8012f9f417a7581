// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/agenda.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace agenda_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the earliest deadline is the next, whoever it is moved for") {
  Agenda agenda;
  CHECK_FALSE(agenda.next());
  agenda.plan("a", t0 + 5s);
  agenda.plan("b", t0 + 3s);
  agenda.plan("c", t0 + 4s);
  CHECK(agenda.next() == t0 + 3s);
  agenda.plan("b", t0 + 9s);  // later
  CHECK(agenda.next() == t0 + 4s);
  agenda.plan("a", t0 + 1s);  // earlier
  CHECK(agenda.next() == t0 + 1s);
  CHECK(agenda.deadline_of("a") == t0 + 1s);
  agenda.plan("a", std::nullopt);
  CHECK_FALSE(agenda.deadline_of("a"));
  agenda.plan("nobody", std::nullopt);
  CHECK(agenda.next() == t0 + 4s);
  CHECK(agenda.size() == 2);
}

TEST_CASE("who is due is taken out, the earliest first and then by name") {
  Agenda agenda;
  agenda.plan("late", t0 + 3s);
  agenda.plan("y", t0 + 2s);
  agenda.plan("x", t0 + 2s);
  agenda.plan("z", t0 + 1s);
  CHECK(agenda.take_due(t0).empty());
  CHECK(agenda.take_due(t0 + 2s) == Names{"z", "x", "y"});
  CHECK(agenda.take_due(t0 + 2s).empty());
  CHECK(agenda.next() == t0 + 3s);
}

TEST_CASE("ten thousand random moves agree with a sorted list") {
  Agenda agenda;
  std::map<std::string, TimePoint> plain;
  std::minstd_rand random(7);
  for (int step = 0; step < 10'000; ++step) {
    const std::string who = std::to_string(random() % 50);
    if (random() % 4 == 0) {
      agenda.plan(who, std::nullopt);
      plain.erase(who);
    } else {
      const TimePoint when = t0 + std::chrono::milliseconds(random() % 1000);
      agenda.plan(who, when);
      plain[who] = when;
    }
    std::optional<TimePoint> earliest;
    for (const auto& [name, when] : plain) {
      if (!earliest || when < *earliest) earliest = when;
    }
    REQUIRE(agenda.next() == earliest);
    REQUIRE(agenda.size() == plain.size());
  }
  CHECK(agenda.take_due(t0 + 1s).size() == plain.size());
  CHECK_FALSE(agenda.next());
}

}  // namespace agenda_test
