// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/fan_out.h"

#include <doctest/doctest.h>

namespace branch_test {

using namespace cpprun;
using namespace cpprun::fanout;

namespace {

std::vector<Member> hosts(int count) {
  std::vector<Member> members;
  for (int number = 0; number < count; ++number) {
    members.push_back({number, "n" + std::to_string(number), 0});
  }
  return members;
}

struct World {
  FanOutNode node{JobTerms{}};
  TimePoint now{};
  FanOutNode::Actions last;

  template <class T>
  std::vector<T> tell(const FanOutNode::Event& event) {
    last = node.handle(now, event);
    CHECK(node.check().value_or("") == "");
    return those<T>();
  }
  template <class T>
  std::vector<T> those() const {
    std::vector<T> found;
    for (const auto& action : last) {
      if (const auto* is = std::get_if<T>(&action)) found.push_back(*is);
    }
    return found;
  }
  template <class T>
  std::vector<T> wait(Duration duration) {
    now += duration;
    last = node.advance(now);
    return those<T>();
  }
};

}  // namespace

TEST_CASE("a few hosts are dialed at once, and each is a leaf") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(3)});
  REQUIRE(started.size() == 3);
  CHECK(started[1].members == std::vector<Member>{{1, "n1", 0}});
}

TEST_CASE("many hosts become 32 subtrees that are equally large, in order") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(1000)});
  REQUIRE(started.size() == 32);
  int next = 0;
  std::size_t smallest = 1000;
  std::size_t largest = 0;
  for (const auto& each : started) {
    for (const auto& member : each.members) CHECK(member.number == next++);
    smallest = std::min(smallest, each.members.size());
    largest = std::max(largest, each.members.size());
  }
  CHECK(next == 1000);
  CHECK(largest - smallest <= 1);
}

TEST_CASE("terms go to a host when its cpprun is there, and not before") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(1)});
  CHECK(world.those<SendTo>().empty());
  const auto given = world.tell<SendTo>(Ready{started[0].shell});
  REQUIRE(given.size() == 1);
  CHECK(std::get<Terms>(given[0].message).members == hosts(1));
}

TEST_CASE("a dead host hides nobody who was to be started by it") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(64)});
  REQUIRE(started[0].members.size() == 2);
  const auto gone = world.tell<Forward>(ShellEnded{started[0].shell, "Connection refused"});
  REQUIRE(gone.size() == 1);
  CHECK(std::get<Gone>(gone[0].message) == Gone{0, "Connection refused"});
  const auto again = world.those<Start>();
  REQUIRE(again.size() == 1);
  CHECK(again[0].members == std::vector<Member>{{1, "n1", 0}});
}

TEST_CASE("a shell that says nothing is killed after a while, and told with that reason") {
  World world;
  const auto shell = world.tell<Start>(Dial{hosts(1)})[0].shell;
  world.now += reach_timeout / 2;
  world.tell<Kill>(Alive{shell});
  CHECK(world.wait<Kill>(reach_timeout - Duration{1}).empty());
  CHECK(world.wait<Kill>(Duration{1}).size() == 1);
  const auto gone = world.tell<Forward>(ShellEnded{shell, "signal 9"});
  CHECK(std::get<Gone>(gone.at(0).message).reason == "no response for 20 s");
}

TEST_CASE("a host that keeps printing and never answers is killed when its time is over") {
  World world;
  const int shell = world.tell<Start>(Dial{hosts(1)}).at(0).shell;
  for (int at = 0; at < 5; ++at) {
    CHECK(world.wait<Kill>(std::chrono::seconds(10)).empty());
    world.tell<Kill>(Alive{shell});
  }
  CHECK(world.node.next_deadline() == world.now + std::chrono::seconds(10));
  CHECK(world.wait<Kill>(std::chrono::seconds(10)).size() == 1);
  const auto gone = world.tell<Forward>(ShellEnded{shell, "killed"});
  CHECK(std::get<Gone>(gone.at(0).message).reason ==
        "no response from cpprun within 60 s, only other output");
}

TEST_CASE("a host whose program is there and never says where it is has the same time") {
  World world;
  const int shell = world.tell<Start>(Dial{hosts(1)}).at(0).shell;
  world.tell<SendTo>(Ready{shell});
  for (int at = 0; at < 5; ++at) {
    CHECK(world.wait<Kill>(std::chrono::seconds(10)).empty());
    world.tell<Forward>(Said{shell, Pong{}});
  }
  CHECK(world.wait<Kill>(std::chrono::seconds(10)).size() == 1);
}

TEST_CASE("a host that has arrived in time is there as long as it is heard") {
  World world;
  const int shell = world.tell<Start>(Dial{hosts(1)}).at(0).shell;
  world.tell<SendTo>(Ready{shell});
  world.tell<Forward>(Said{shell, Here{0, "10.0.0.1", 1}});
  for (int at = 0; at < 20; ++at) {
    CHECK(world.wait<Kill>(std::chrono::seconds(10)).empty());
    world.tell<Forward>(Said{shell, Pong{}});
  }
}

TEST_CASE("a connection that has died without a word is noticed by its silence") {
  World world;
  const auto shell = world.tell<Start>(Dial{hosts(1)})[0].shell;
  world.tell<SendTo>(Ready{shell});
  CHECK(world.wait<SendTo>(ping_interval).size() == 1);
  world.tell<Forward>(Said{shell, Pong{}});
  CHECK(world.those<Forward>().empty());
  CHECK(world.wait<Kill>(silence_max).size() == 1);
}

TEST_CASE("with a host that was there all behind it are lost, but for those that had ended") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(96)});
  const int shell = started[0].shell;
  REQUIRE(started[0].members.size() == 3);
  world.tell<SendTo>(Ready{shell});
  world.tell<Forward>(Said{shell, Here{0, "", 0}});
  world.tell<Forward>(Said{shell, Here{1, "", 0}});
  world.tell<Forward>(Said{shell, Ended{1, 0, true}});
  const auto gone = world.tell<Forward>(ShellEnded{shell, "reset"});
  REQUIRE(gone.size() == 2);
  CHECK(std::get<Gone>(gone[0].message) == Gone{0, "reset"});
  CHECK(std::get<Gone>(gone[1].message) == Gone{2, "lost the connection through n0: reset"});
  CHECK(world.those<Start>().empty());
}

TEST_CASE("a stop goes to all that are there, and ends the dialing of the others") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(2)});
  world.tell<SendTo>(Ready{started[0].shell});
  world.tell<SendTo>(Tell{Stop{15}});
  REQUIRE(world.those<SendTo>().size() == 1);
  CHECK(std::get<Stop>(world.those<SendTo>()[0].message).signal == 15);
  REQUIRE(world.those<Kill>().size() == 1);
  CHECK(world.those<Kill>()[0].shell == started[1].shell);
}

TEST_CASE("a beginning for one host goes only where that host is") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(2)});
  for (const auto& each : started) world.tell<SendTo>(Ready{each.shell});
  const auto given = world.tell<SendTo>(Tell{Begin{1, 0, "a", 1}});
  REQUIRE(given.size() == 1);
  CHECK(given[0].shell == started[1].shell);
}

}  // namespace branch_test
