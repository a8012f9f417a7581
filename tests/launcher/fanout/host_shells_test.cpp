// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/fan_out.h"

#include <doctest/doctest.h>

namespace host_shells_test {

using namespace cpprun;
using namespace cpprun::fanout;

namespace {

std::vector<Member> hosts(std::size_t count) {
  std::vector<Member> members;
  for (int number = 0; number < static_cast<int>(count); ++number) {
    members.push_back({number, "n" + std::to_string(number), 0});
  }
  return members;
}

struct World {
  HostShells shells{JobTerms{}};
  TimePoint now{};
  HostShells::Actions last;

  template <class T>
  std::vector<T> tell(const HostShells::Event& event) {
    last = shells.handle(now, event);
    CHECK(shells.check().value_or("") == "");
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
    last = shells.advance(now);
    return those<T>();
  }
};

}  // namespace

TEST_CASE("each host gets a shell of its own, in their order") {
  World world;
  const auto started = world.tell<Start>(Dial{hosts(3)});
  REQUIRE(started.size() == 3);
  CHECK(started[1].host == Member{1, "n1", 0});
}

TEST_CASE("64 hosts are dialed at a time, and each that arrives or fails makes room for another") {
  World world;
  CHECK(world.tell<Start>(Dial{hosts(1000)}).size() == dials_max);
  CHECK(world.tell<Start>(Ready{7}).empty());
  const auto next = world.tell<Start>(Said{7, Here{"10.0.0.1", 1}});
  REQUIRE(next.size() == 1);
  CHECK(next[0].host.number == 64);
  CHECK(world.tell<Start>(ShellEnded{0, "Connection refused"}).at(0).host.number == 65);
}

TEST_CASE("shells that have arrived stay open, however many they are") {
  World world;
  std::size_t started = world.tell<Start>(Dial{hosts(1000)}).size();
  for (int number = 0; number < 1000; ++number) {
    world.tell<SendTo>(Ready{number});
    started += world.tell<Start>(Said{number, Here{"", 1}}).size();
  }
  CHECK(started == 1000);
  CHECK(world.tell<SendTo>(Tell{Begin{}}).size() == 1000);
}

TEST_CASE("a host is dialed again only after its old shell has ended") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  world.tell<SendTo>(Ready{0});
  world.tell<Said>(Said{0, Gone{"cannot change to directory"}});
  CHECK(world.tell<Start>(Dial{hosts(1)}).empty());
  CHECK(world.tell<Start>(ShellEnded{0, "exited with code 0"}).size() == 1);
  CHECK(world.those<Said>().empty());  // its end was reported before
}

TEST_CASE("terms are sent to a host only when its cpprun runs") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  CHECK(world.those<SendTo>().empty());
  const auto given = world.tell<SendTo>(Ready{0});
  REQUIRE(given.size() == 1);
  CHECK(std::get<Terms>(given[0].message).host == Member{0, "n0", 0});
}

TEST_CASE("a silent shell is killed after its timeout, and the host is reported with that reason") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  world.now += reach_timeout / 2;
  world.tell<Kill>(Alive{0});
  CHECK(world.wait<Kill>(reach_timeout - Duration{1}).empty());
  CHECK(world.wait<Kill>(Duration{1}).size() == 1);
  const auto gone = world.tell<Said>(ShellEnded{0, "signal 9"});
  CHECK(std::get<Gone>(gone.at(0).message).reason == "no response for 20 s");
}

TEST_CASE("a host that only prints is killed at the arrival timeout") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  for (int at = 0; at < 5; ++at) {
    CHECK(world.wait<Kill>(std::chrono::seconds(10)).empty());
    world.tell<Kill>(Alive{0});
  }
  CHECK(world.shells.next_deadline() == world.now + std::chrono::seconds(10));
  CHECK(world.wait<Kill>(std::chrono::seconds(10)).size() == 1);
  const auto gone = world.tell<Said>(ShellEnded{0, "killed"});
  CHECK(std::get<Gone>(gone.at(0).message).reason ==
        "no response from cpprun within 60 s, only other output");
}

TEST_CASE("a host whose cpprun never reports its address is killed at the same timeout") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  world.tell<SendTo>(Ready{0});
  for (int at = 0; at < 5; ++at) {
    CHECK(world.wait<Kill>(std::chrono::seconds(10)).empty());
    world.tell<Said>(Said{0, Pong{}});
  }
  CHECK(world.wait<Kill>(std::chrono::seconds(10)).size() == 1);
}

TEST_CASE("a host that arrived in time stays connected as long as it sends") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  world.tell<SendTo>(Ready{0});
  world.tell<Said>(Said{0, Here{"10.0.0.1", 1}});
  for (int at = 0; at < 20; ++at) {
    CHECK(world.wait<Kill>(std::chrono::seconds(10)).empty());
    world.tell<Said>(Said{0, Pong{}});
  }
}

TEST_CASE("a dead connection is detected by its silence") {
  World world;
  world.tell<Start>(Dial{hosts(1)});
  world.tell<SendTo>(Ready{0});
  CHECK(world.wait<SendTo>(ping_interval).size() == 1);
  world.tell<Said>(Said{0, Pong{}});
  CHECK(world.those<Said>().empty());
  CHECK(world.wait<Kill>(silence_max).size() == 1);
}

TEST_CASE("a host that has ended is not lost when its shell ends") {
  World world;
  world.tell<Start>(Dial{hosts(2)});
  for (int number = 0; number < 2; ++number) {
    world.tell<SendTo>(Ready{number});
    world.tell<Said>(Said{number, Here{"", 0}});
  }
  world.tell<Said>(Said{1, Ended{0, true}});
  CHECK(world.tell<Said>(ShellEnded{1, "exited with code 0"}).empty());
  const auto gone = world.tell<Said>(ShellEnded{0, "reset"});
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].host == 0);
  CHECK(std::get<Gone>(gone[0].message) == Gone{"reset"});
  CHECK(world.shells.empty());
}

TEST_CASE("a stop is sent to all connected hosts and ends the dialing of the others") {
  World world;
  world.tell<Start>(Dial{hosts(dials_max + 1)});
  world.tell<SendTo>(Ready{0});
  world.tell<SendTo>(Tell{Stop{15}});
  REQUIRE(world.those<SendTo>().size() == 1);
  CHECK(std::get<Stop>(world.those<SendTo>()[0].message).signal == 15);
  REQUIRE(world.those<Kill>().size() == dials_max - 1);
  CHECK(world.those<Kill>()[0].host == 1);
  REQUIRE(world.those<Said>().size() == 1);  // the last was not dialed yet
  CHECK(world.those<Said>()[0].host == static_cast<int>(dials_max));
  CHECK(world.tell<Start>(ShellEnded{1, "killed"}).empty());
}

TEST_CASE("a start for one host is sent only to that host") {
  World world;
  for (const auto& each : world.tell<Start>(Dial{hosts(2)})) {
    world.tell<SendTo>(Ready{each.host.number});
  }
  const auto given = world.tell<SendTo>(Tell{Begin{0, "a", 1}, 1});
  REQUIRE(given.size() == 1);
  CHECK(given[0].host == 1);
}

}  // namespace host_shells_test
