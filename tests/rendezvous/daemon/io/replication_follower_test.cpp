// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replication_follower.h"

#include <doctest/doctest.h>

#include <chrono>

#include "tests/rendezvous/daemon/io/standby_stage.h"

namespace follower_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;
using Kind = link::StandbyRecord::Kind;

namespace {

// A follower whose leader is the test.
struct Staged {
  Staged()
      : server(loop),
        follower(
            loop.loop(), server,
            {.say = [this](LogLevel, const std::string& it) { said.push_back(it); },
             .link_to = [this](const std::string&, int,
                               DialCallbacks callbacks) -> Result<std::unique_ptr<DialledLink>> {
               if (!refusal.empty()) return failure(refusal);
               line = std::make_shared<StagedDial::Line>();
               line->callbacks = std::move(callbacks);
               ++lines;
               return std::make_unique<StagedDial>(line);
             },
             .heard = [](const link::Leads&, const Endpoint&) {},
             .caught_up = [] {},
             .take_over = [] {},
             .lost = [this](const std::string&, Duration) { ++lost; }}) {
    follower.follow("alpha", 1, {.name = "bravo", .cluster = "c"});
  }
  void come_up() {
    line->callbacks.up("local");
    line->callbacks.message(link::Leads{.name = "alpha", .cluster = "c", .epoch = 1});
  }
  void hear(Kind kind, std::string_view bytes = {}) {
    const auto frame = link::standby_frame(
        {.kind = kind, .number = ++number, .round = RoundNumber{1}, .job = "job", .bytes = bytes});
    CHECK(line->callbacks.streams(std::string_view(frame).substr(4)) == "");
    loop.run_until_idle();
  }
  // A complete image of a log.
  void hear_image() {
    for (const Kind kind : {Kind::log_begins, Kind::log, Kind::log_whole}) hear(kind, "x");
  }
  int asked_anew() const {
    int times = 0;
    for (const std::string& frame : line->frames) {
      const auto record = link::read_standby_frame(std::string_view(frame).substr(4));
      times += record && record->kind == Kind::renew ? 1 : 0;
    }
    return times;
  }

  StagedLoop loop;
  StagedServer server;
  std::vector<std::string> said;
  std::string refusal;  // the reason why no link can be opened; empty: it opens
  std::shared_ptr<StagedDial::Line> line;
  int lines = 0;
  int lost = 0;
  std::uint64_t number = 0;
  ReplicationFollower follower;
};

}  // namespace

TEST_CASE("each link is opened with the current secret") {
  Staged staged;
  CHECK(staged.lines == 1);
  staged.line->callbacks.down("its secret is another one");
  staged.refusal = "the secret cannot be read";
  staged.loop.pass(1s);
  CHECK(staged.lines == 1);
  CHECK(staged.said.back() ==
        "no contact with the cpprund at alpha:1: cannot open a link: the secret cannot be read");
  staged.refusal.clear();
  staged.loop.pass(1s);
  CHECK(staged.lines == 2);
  CHECK(staged.line->is_dialled);
}

TEST_CASE("a follower that has left does not reconnect") {
  Staged staged;
  staged.come_up();
  staged.follower.leave();
  staged.loop.pass(10s);
  CHECK(staged.lines == 1);
  CHECK(staged.line->is_hung_up);
}

TEST_CASE("a follower's own suspension does not count as silence of the leader") {
  Staged staged;
  staged.come_up();
  staged.loop.sleep(60s);
  staged.loop.pass(400ms);
  CHECK(staged.lost == 0);
  CHECK_FALSE(staged.line->is_hung_up);
  staged.loop.pass(1s);
  CHECK(staged.lost == 1);
}

TEST_CASE("a store that cannot be replicated is requested again, with a growing delay") {
  Staged staged;
  staged.come_up();
  staged.server.replica = failure("there is no room");
  staged.hear_image();
  CHECK(staged.server.whole == 0);
  CHECK(staged.asked_anew() == 1);
  // Later entries of the same log cause no further request.
  staged.hear(Kind::log, "y");
  CHECK(staged.asked_anew() == 1);
  int images = 0;
  for (auto passed = 0s; passed < 600s; passed += 1s) {
    staged.loop.pass(500ms);
    staged.line->callbacks.message(link::Heartbeat{});
    staged.loop.pass(500ms);
    staged.line->callbacks.message(link::Heartbeat{});
    if (staged.asked_anew() == images) continue;
    images = staged.asked_anew();
    staged.hear_image();
  }
  CHECK(images > 10);
  CHECK(images < 22);
  staged.server.replica = {};
  staged.loop.pass(500ms);
  staged.hear_image();
  CHECK(staged.server.whole == 1);
}

}  // namespace follower_test
