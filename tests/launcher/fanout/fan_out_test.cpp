// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/fan_out.h"

#include <doctest/doctest.h>

#include <csignal>
#include <map>

namespace fan_out_test {

using namespace cpprun;
using namespace cpprun::fanout;

namespace {

constexpr Duration grace = std::chrono::seconds(30);

Wanted wanted(int count, int at_least, bool elastic) {
  Wanted terms{.nodes_min = at_least, .elastic = elastic, .grace = grace};
  for (int number = 0; number < count; ++number) {
    terms.members.push_back({number, "n" + std::to_string(number), 0});
  }
  return terms;
}

// The console's machine on its own.
struct Console {
  explicit Console(Wanted terms) : machine(std::move(terms)) { last = machine.start(); }

  FanOut machine;
  TimePoint now{};
  FanOut::Actions last;

  void tell(const FanOut::Event& event) {
    last = machine.handle(now, event);
    CHECK(machine.check().value_or("") == "");
  }
  void wait(Duration duration) {
    now += duration;
    last = machine.advance(now);
  }
  template <class T>
  const T* first() const {
    for (const auto& action : last) {
      if (const auto* is = std::get_if<T>(&action)) return is;
    }
    return nullptr;
  }
  const Stop* stopped() const {
    const auto* told = first<Tell>();
    return told == nullptr ? nullptr : std::get_if<Stop>(&told->message);
  }
  const Begin* begun() const {
    const auto* told = first<Tell>();
    return told == nullptr ? nullptr : std::get_if<Begin>(&told->message);
  }
};

}  // namespace

TEST_CASE("nothing begins before everybody is there, and then at the first host's address") {
  Console console(wanted(2, 2, false));
  console.tell(Said{1, Here{"10.0.0.2", 2000}});
  CHECK(console.last.empty());
  console.tell(Said{0, Here{"10.0.0.1", 1000}});
  REQUIRE(console.begun());
  CHECK(*console.begun() == Begin{0, "10.0.0.1", 1000});
}

TEST_CASE("whoever cannot be reached is named in one list, and nothing is started") {
  Console console(wanted(3, 3, false));
  console.tell(Said{0, Gone{"refused"}});
  CHECK(console.last.empty());
  console.tell(Said{1, Here{"", 0}});
  console.tell(Said{2, Gone{"no such name"}});
  REQUIRE(console.first<Say>());
  CHECK(console.first<Say>()->sentence ==
        "2 of 3 hosts cannot be reached:\n  n0: refused\n  n2: no such name");
  CHECK(!console.begun());
  REQUIRE(console.stopped());
  console.tell(Said{1, Ended{0, false}});
  REQUIRE(console.first<Finish>());
  CHECK(console.first<Finish>()->code == 1);
}

TEST_CASE("the job's exit code is the console's, once every host has ended") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{1, Ended{7, true}});
  CHECK(!console.first<Finish>());
  console.tell(Said{0, Ended{7, true}});
  REQUIRE(console.first<Finish>());
  CHECK(console.first<Finish>()->code == 7);
}

TEST_CASE("a host whose agent refuses to start ends the others at once, with its code") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{1, Ended{2, false}});
  CHECK(console.stopped());
  console.tell(Said{0, Ended{143, true}});
  CHECK(console.first<Finish>()->code == 2);
}

TEST_CASE("Ctrl-C reaches all; twice, it kills; and who does not answer is named") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Interrupted{SIGINT});
  REQUIRE(console.stopped());
  CHECK(console.stopped()->signal == SIGINT);
  console.tell(Interrupted{SIGINT});
  REQUIRE(console.stopped());
  CHECK(console.stopped()->signal == SIGKILL);
  console.tell(Said{0, Ended{130, true}});
  console.wait(fanout::kill_timeout);
  REQUIRE(console.first<Say>());
  CHECK(console.first<Say>()->sentence == "n1: no exit code received");
  CHECK(console.first<Finish>()->code == 130);
}

TEST_CASE("agents that do not end after their grace are killed") {
  Console console(wanted(1, 1, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Interrupted{SIGTERM});
  console.wait(grace + agents_timeout);
  REQUIRE(console.stopped());
  CHECK(console.stopped()->signal == SIGKILL);
}

TEST_CASE("a lost host ends a job of fixed size") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{1, Gone{"reset"}});
  CHECK(console.first<Say>()->sentence == "lost n1: reset");
  CHECK(console.stopped());
}

TEST_CASE("an elastic job goes on without a lost host, which is dialed again with back-off") {
  Console console(wanted(3, 2, true));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{2, Gone{"no route"}});
  REQUIRE(console.begun());
  console.wait(redial_first);
  REQUIRE(console.first<Dial>());
  CHECK(console.first<Dial>()->hosts.front().name == "n2");
  console.tell(Said{2, Gone{"no route"}});
  CHECK(!console.stopped());
  console.wait(redial_first);
  CHECK(!console.first<Dial>());
  console.wait(redial_first);
  REQUIRE(console.first<Dial>());
  console.tell(Said{2, Here{"c", 1}});
  REQUIRE(console.begun());
  CHECK(console.first<Tell>()->only == 2);
  CHECK(console.begun()->address == "a");
}

TEST_CASE("an elastic job that has ended waits for nobody who is not there") {
  Console console(wanted(3, 2, true));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{2, Gone{"no route"}});
  console.tell(Said{1, Ended{0, true}});
  console.tell(Said{0, Ended{0, true}});
  REQUIRE(console.first<Finish>());
  CHECK(console.first<Finish>()->code == 0);
}

TEST_CASE("in a rehearsal nobody is stopped for another's sake, and all say what is wrong") {
  auto terms = wanted(2, 2, false);
  terms.is_rehearsal = true;
  Console console(terms);
  console.tell(Said{0, Here{"10.0.0.1", 1}});
  console.tell(Said{1, Here{"10.0.0.2", 1}});
  console.tell(Said{1, Ended{2, false}});
  CHECK_FALSE(console.stopped());
  console.tell(Said{0, Ended{0, true}});
  REQUIRE(console.first<Finish>());
  CHECK(console.first<Finish>()->code == 2);
}

}  // namespace fan_out_test
