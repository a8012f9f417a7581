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
    const auto* sent = first<Tell>();
    return sent == nullptr ? nullptr : std::get_if<Stop>(&sent->message);
  }
  const Begin* begun() const {
    const auto* sent = first<Tell>();
    return sent == nullptr ? nullptr : std::get_if<Begin>(&sent->message);
  }
};

}  // namespace

TEST_CASE("the job begins once all hosts are connected, at the first host's address") {
  Console console(wanted(2, 2, false));
  console.tell(Said{1, Here{"10.0.0.2", 2000}});
  CHECK(console.last.empty());
  console.tell(Said{0, Here{"10.0.0.1", 1000}});
  REQUIRE(console.begun());
  CHECK(*console.begun() == Begin{0, "10.0.0.1", 1000});
}

TEST_CASE("unreachable hosts are listed together, and nothing is started") {
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

TEST_CASE("the console exits with the job's exit code once every host has ended") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{1, Ended{7, true}});
  CHECK(!console.first<Finish>());
  console.tell(Said{0, Ended{7, true}});
  REQUIRE(console.first<Finish>());
  CHECK(console.first<Finish>()->code == 7);
}

TEST_CASE("a host whose agent refuses to start stops the others at once, with its code") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{1, Ended{2, false}});
  CHECK(console.stopped());
  console.tell(Said{0, Ended{143, true}});
  CHECK(console.first<Finish>()->code == 2);
}

TEST_CASE("Ctrl-C stops all hosts, a second one kills, and silent hosts are named") {
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

TEST_CASE("agents that outlive their grace are killed") {
  Console console(wanted(1, 1, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Interrupted{SIGTERM});
  console.wait(grace + agents_timeout);
  REQUIRE(console.stopped());
  CHECK(console.stopped()->signal == SIGKILL);
}

TEST_CASE("a lost host ends a fixed-size job") {
  Console console(wanted(2, 2, false));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{1, Gone{"reset"}});
  CHECK(console.first<Say>()->sentence == "lost n1: reset");
  CHECK(console.stopped());
}

TEST_CASE("an elastic job continues without a lost host, which is dialed again with back-off") {
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

TEST_CASE("a finished elastic job does not wait for unreachable hosts") {
  Console console(wanted(3, 2, true));
  console.tell(Said{0, Here{"a", 1}});
  console.tell(Said{1, Here{"b", 1}});
  console.tell(Said{2, Gone{"no route"}});
  console.tell(Said{1, Ended{0, true}});
  console.tell(Said{0, Ended{0, true}});
  REQUIRE(console.first<Finish>());
  CHECK(console.first<Finish>()->code == 0);
}

TEST_CASE("in a dry run an error does not stop the other hosts, and all errors are reported") {
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
