// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/examination.h"

#include <doctest/doctest.h>

#include <csignal>

namespace examination_test {

using namespace cpprun;
using namespace cpprun::doctor;
using namespace std::chrono_literals;
using fanout::Answer;
using fanout::Ask;
using fanout::Ended;
using fanout::Finish;
using fanout::Gone;
using fanout::Here;
using fanout::Stop;
using fanout::Tell;

namespace {

// Two hosts, and a clock that the test controls.
struct World {
  Examination machine{{{0, "me@a", 0}, {1, "b", 0}}, 29500, ClockPair{}};
  TimePoint now{};
  Examination::Actions last = machine.start();

  void hear(int host, fanout::Up message) {
    last = machine.handle(now, fanout::Said{host, std::move(message)});
    CHECK(machine.check() == std::nullopt);
  }
  void pass(Duration time) {
    now += time;
    last = machine.advance(now);
    CHECK(machine.check() == std::nullopt);
  }
  void all_here() {
    hear(0, Here{"10.0.0.1", 1});
    hear(1, Here{"10.0.0.2", 1});
  }
  // With a clock that is ahead, and a delay of a second in each direction.
  void facts(int number, Duration ahead = {}) {
    const auto asked =
        ClockPair{}.by_wall(now) - 1s + std::chrono::duration_cast<WallTime::duration>(ahead);
    const HostFacts facts{
        .host = "h", .asked = asked, .answered = asked, .port = 4000 + number, .greeting = "word"};
    hear(number, Answer{to_json(Reading{facts})});
  }
  void dialed(int number) {
    hear(number, Answer{to_json(Reading{
                     std::vector<Dialed>{{.number = 1 - number, .reached = Reached::yes}}})});
  }
  template <class Message>
  const Message* sent() const {
    if (last.empty() || !std::holds_alternative<Tell>(last.back())) return nullptr;
    return std::get_if<Message>(&std::get<Tell>(last.back()).message);
  }
  bool is_over() const { return !last.empty() && std::holds_alternative<Finish>(last.back()); }
};

}  // namespace

TEST_CASE("hosts are asked once all are connected, and dial each other once all have answered") {
  World world;
  REQUIRE(world.last.size() == 1);
  world.all_here();
  REQUIRE(world.sent<Ask>());
  CHECK(read_question(world.sent<Ask>()->text).value() == Question{AskFacts{29500}});
  world.facts(0);
  CHECK(world.last.empty());
  world.facts(1);
  REQUIRE(world.sent<Ask>());
  REQUIRE(world.last.size() == 2);  // the last is for the second host
  CHECK(read_question(world.sent<Ask>()->text).value() ==
        Question{AskDial{{{0, "a", "10.0.0.1", 4000, "word"}}}});
  world.dialed(0);
  world.dialed(1);
  REQUIRE(world.sent<Stop>());
  world.hear(0, Ended{0, false});
  world.hear(1, Ended{0, false});
  CHECK(world.is_over());
  CHECK(world.machine.hosts().at(0).dialed.size() == 1);
  CHECK(world.machine.hosts().at(1).gone.empty());
}

TEST_CASE("a clock's offset excludes the network delay") {
  World world;
  world.all_here();
  world.pass(2s);
  world.facts(0, 5s);
  const auto clock = world.machine.hosts().at(0).clock;
  REQUIRE(clock);
  CHECK(*clock == ClockOffset{.offset = 5s, .error = 1s});
}

TEST_CASE("a console that was suspended still measures the clocks of hosts") {
  World world;
  // Meanwhile the steady clock stood still.
  world.machine.set_clocks({.now = world.now, .wall = WallTime{std::chrono::hours(1)}});
  world.all_here();
  world.now += 2s;
  world.facts(0, std::chrono::hours(1));
  const auto clock = world.machine.hosts().at(0).clock;
  REQUIRE(clock);
  CHECK(*clock == ClockOffset{.offset = Duration{}, .error = 1s});
}

TEST_CASE("an unreachable host is reported, and the others are examined") {
  World world;
  world.hear(1, Gone{"Connection refused"});
  world.hear(0, Here{"10.0.0.1", 1});
  CHECK(world.sent<Ask>());
  world.facts(0);
  world.hear(0, Answer{to_json(Reading{std::vector<Dialed>{}})});
  world.hear(0, Ended{0, false});
  CHECK(world.is_over());
  CHECK(world.machine.hosts().at(1).gone == "Connection refused");
}

TEST_CASE("the examination ends at once if no host can be reached") {
  World world;
  world.hear(0, Gone{"no"});
  world.hear(1, Gone{"no"});
  CHECK(world.is_over());
}

TEST_CASE("a host that does not answer is waited for with a limit") {
  World world;
  world.all_here();
  world.facts(0);
  world.pass(answer_timeout);
  CHECK(world.sent<Ask>());  // they dial the hosts that have answered
  CHECK(world.machine.hosts().at(1).gone == "no response in time");
  world.dialed(0);
  world.pass(answer_timeout);
  CHECK(world.sent<Stop>());
  world.pass(end_timeout);
  CHECK(world.is_over());
}

TEST_CASE("a host that is lost during the examination is reported") {
  World world;
  world.all_here();
  world.facts(0);
  world.hear(1, Gone{"the cable"});
  CHECK(world.sent<Ask>());
  CHECK(world.machine.hosts().at(1).gone == "the cable");
}

TEST_CASE("an invalid answer is reported") {
  World world;
  world.all_here();
  world.hear(0, Answer{"{"});
  CHECK(world.machine.hosts().at(0).gone.starts_with("invalid message: not JSON"));
}

TEST_CASE("Ctrl-C before any host is connected ends the shells, and a second one does not wait") {
  World world;
  world.last = world.machine.handle(world.now, fanout::Interrupted{SIGINT});
  CHECK(world.sent<Stop>());
  world.hear(0, Gone{"the start was canceled before the host responded"});
  CHECK_FALSE(world.is_over());
  world.last = world.machine.handle(world.now, fanout::Interrupted{SIGINT});
  CHECK(world.is_over());
}

TEST_CASE("Ctrl-C ends the examination with the exit code that a shell shows") {
  World world;
  world.all_here();
  world.last = world.machine.handle(world.now, fanout::Interrupted{SIGINT});
  CHECK(world.sent<Stop>());
  world.hear(0, Ended{0, false});
  world.hear(1, Ended{0, false});
  REQUIRE(world.is_over());
  CHECK(std::get<Finish>(world.last.back()).code == 128 + SIGINT);
}

}  // namespace examination_test
