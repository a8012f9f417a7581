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

// Two hosts, and a clock that is ours alone.
struct World {
  Examination machine{{{0, "me@a", 0}, {1, "b", 0}}, 29500};
  Examination::Now now{};
  Examination::Actions last = machine.start();

  void hear(int host, fanout::Up message) {
    last = machine.handle(now, fanout::Said{host, std::move(message)});
    CHECK(machine.check() == std::nullopt);
  }
  void pass(Duration time) {
    now.time += time;
    now.wall += std::chrono::duration_cast<WallTime::duration>(time);
    last = machine.advance(now);
    CHECK(machine.check() == std::nullopt);
  }
  void all_here() {
    hear(0, Here{"10.0.0.1", 1});
    hear(1, Here{"10.0.0.2", 1});
  }
  // With a clock that is ahead, and a way of a second in each direction.
  void facts(int number, Duration ahead = {}) {
    const auto asked = now.wall - 1s + std::chrono::duration_cast<WallTime::duration>(ahead);
    const HostFacts facts{
        .host = "h", .asked = asked, .answered = asked, .port = 4000 + number, .greeting = "word"};
    hear(number, Answer{to_json(Reading{facts})});
  }
  void dialed(int number) {
    hear(number, Answer{to_json(Reading{
                     std::vector<Dialed>{{.number = 1 - number, .reached = Reached::yes}}})});
  }
  template <class Message>
  const Message* told() const {
    if (last.empty() || !std::holds_alternative<Tell>(last.back())) return nullptr;
    return std::get_if<Message>(&std::get<Tell>(last.back()).message);
  }
  bool is_over() const { return !last.empty() && std::holds_alternative<Finish>(last.back()); }
};

}  // namespace

TEST_CASE(
    "all are asked when all are there, look for each other when all have said what they are") {
  World world;
  REQUIRE(world.last.size() == 1);
  world.all_here();
  REQUIRE(world.told<Ask>());
  CHECK(read_question(world.told<Ask>()->text).value() == Question{AskFacts{29500}});
  world.facts(0);
  CHECK(world.last.empty());
  world.facts(1);
  REQUIRE(world.told<Ask>());
  REQUIRE(world.last.size() == 2);  // the last is for the second host
  CHECK(read_question(world.told<Ask>()->text).value() ==
        Question{AskDial{{{0, "a", "10.0.0.1", 4000, "word"}}}});
  world.dialed(0);
  world.dialed(1);
  REQUIRE(world.told<Stop>());
  world.hear(0, Ended{0, false});
  world.hear(1, Ended{0, false});
  CHECK(world.is_over());
  CHECK(world.machine.hosts().at(0).dialed.size() == 1);
  CHECK(world.machine.hosts().at(1).gone.empty());
}

TEST_CASE("a clock's offset leaves out the way") {
  World world;
  world.all_here();
  world.pass(2s);
  world.facts(0, 5s);
  const auto clock = world.machine.hosts().at(0).clock;
  REQUIRE(clock);
  CHECK(*clock == ClockOffset{.offset = 5s, .error = 1s});
}

TEST_CASE("whoever cannot be reached is told, and the others are examined") {
  World world;
  world.hear(1, Gone{"Connection refused"});
  world.hear(0, Here{"10.0.0.1", 1});
  CHECK(world.told<Ask>());
  world.facts(0);
  world.hear(0, Answer{to_json(Reading{std::vector<Dialed>{}})});
  world.hear(0, Ended{0, false});
  CHECK(world.is_over());
  CHECK(world.machine.hosts().at(1).gone == "Connection refused");
}

TEST_CASE("where nobody can be reached it is over at once") {
  World world;
  world.hear(0, Gone{"no"});
  world.hear(1, Gone{"no"});
  CHECK(world.is_over());
}

TEST_CASE("whoever says nothing is not waited for without end") {
  World world;
  world.all_here();
  world.facts(0);
  world.pass(answer_timeout);
  CHECK(world.told<Ask>());  // they look for those that have answered
  CHECK(world.machine.hosts().at(1).gone == "no response in time");
  world.dialed(0);
  world.pass(answer_timeout);
  CHECK(world.told<Stop>());
  world.pass(end_timeout);
  CHECK(world.is_over());
}

TEST_CASE("a host that is lost in the middle is told") {
  World world;
  world.all_here();
  world.facts(0);
  world.hear(1, Gone{"the cable"});
  CHECK(world.told<Ask>());
  CHECK(world.machine.hosts().at(1).gone == "the cable");
}

TEST_CASE("an answer that cannot be read is told") {
  World world;
  world.all_here();
  world.hear(0, Answer{"{"});
  CHECK(world.machine.hosts().at(0).gone.starts_with("invalid message: not JSON"));
}

TEST_CASE(
    "Ctrl-C before anybody has come ends the shells, too, and a second one waits for nobody") {
  World world;
  world.last = world.machine.handle(world.now, fanout::Interrupted{SIGINT});
  CHECK(world.told<Stop>());
  world.hear(0, Gone{"the start was canceled before the host responded"});
  CHECK_FALSE(world.is_over());
  world.last = world.machine.handle(world.now, fanout::Interrupted{SIGINT});
  CHECK(world.is_over());
}

TEST_CASE("Ctrl-C ends it, with the code that a shell shows") {
  World world;
  world.all_here();
  world.last = world.machine.handle(world.now, fanout::Interrupted{SIGINT});
  CHECK(world.told<Stop>());
  world.hear(0, Ended{0, false});
  world.hear(1, Ended{0, false});
  REQUIRE(world.is_over());
  CHECK(std::get<Finish>(world.last.back()).code == 128 + SIGINT);
}

}  // namespace examination_test
