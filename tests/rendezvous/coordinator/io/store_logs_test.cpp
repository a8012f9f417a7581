// SPDX-License-Identifier: BSD-3-Clause
// What a log keeper has of a job's store at any moment, and the state that its readers reach.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "proto/c10d/codec.h"
#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/store/store_streams.h"
#include "tests/rendezvous/coordinator/io/replayed_process.h"

namespace store_logs_test {

using namespace cpprun;

namespace {

constexpr std::size_t window = std::size_t{1} << 18;

template <class Request>
std::string bytes_of(const Request& request) {
  std::string bytes;
  c10d::encode(c10d::Request(request), c10d::Dialect::d, bytes);
  return bytes;
}

// Of one job. `whole` is the part that another process could resume from.
struct Kept : LogKeeper {
  void begin_log(const std::string&, RoundNumber) override {
    ++begun;
    image.clear();
  }
  void add_image(const std::string&, std::string_view bytes) override { image.append(bytes); }
  bool has_room_for_image() override { return has_room; }
  void log_is_whole(const std::string&) override {
    ++wholes;
    whole = std::exchange(image, {});
  }
  void add_log(const std::string&, std::string_view bytes) override { whole.append(bytes); }
  bool go_on_log(const std::string&) override { return false; }
  void end_log(const std::string&) override { whole.clear(); }

  bool has_room = true;
  int begun = 0;
  int wholes = 0;
  std::string whole;
  std::string image;
};

struct World {
  World() {
    logs.attach(kept);
    logs.begin(replayed_job, round_one);
    stream = agent.open();
    say(bytes_of(c10d::Validate{}));
  }
  ~World() { logs.detach(kept); }

  // Decided at once; deferred work is not done yet.
  void say(std::string bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), agent.room(stream));
      agent.say(stream, bytes.substr(0, count));
      bytes.erase(0, count);
      while (agent.has_frame()) process.hear_only(0, agent.next_frame());
      logs.flush();
      hear();
    }
  }
  void hear() {
    for (auto& down = process.down[0]; !down.empty(); down.pop_front()) {
      link::StreamFrameReader records(std::string_view(down.front()).substr(4));
      REQUIRE(records.round());
      REQUIRE(agent.hear(records));
      while (const auto change = agent.next_change()) {
        agent.take(change->stream, agent.heard(change->stream).size());
      }
    }
  }
  void add(const std::string& key) { say(bytes_of(c10d::Add{.key = key, .delta = 1})); }
  // Does one piece of deferred work; false if there was none.
  bool step() {
    if (process.soon.empty()) return false;
    const auto what = std::move(process.soon.front());
    process.soon.pop_front();
    what();
    logs.flush();
    return true;
  }
  // A reader of the log so far has the same state as this store.
  bool is_kept() {
    ReplayedProcess next(window);
    next.read();
    const auto heard = next.replay->hear(kept.whole);
    REQUIRE_MESSAGE(heard, (heard ? "" : heard.error().reason));
    const bool is_same =
        next.replay->is_whole() && contents_of(next.store()) == contents_of(process.store());
    next.replay->end();
    return is_same;
  }

  ReplayedProcess process{window};
  StoreLogs& logs = process.keep_logs();
  Kept kept;
  StoreStreams agent{round_one, window};
  StreamId stream{};
};

}  // namespace

TEST_CASE("a log that restarts is complete at any moment, either the old one or the new one") {
  World world;
  // Larger than a slice of an image.
  const std::string value(1 << 20, 'v');
  for (int key = 0; key < 12; ++key) {
    world.say(bytes_of(c10d::Set{.key = "k" + std::to_string(key), .value = value}));
  }
  while (world.step()) continue;
  REQUIRE(contents_of(world.process.store()).size() == 12);
  world.logs.shorten(world.kept, replayed_job);
  // Before the image has started this is answered at once.
  world.add("a");
  CHECK(world.is_kept());
  int steps = 0;
  for (; world.step(); ++steps) {
    CHECK(world.is_kept());
    if (steps % 2 == 0) world.add("b" + std::to_string(steps));
    CHECK(world.is_kept());
  }
  CHECK(steps > 3);
  CHECK(world.kept.begun == 2);
  CHECK(world.kept.wholes == 2);
  world.add("c");
  while (world.step()) continue;
  CHECK(world.is_kept());
}

TEST_CASE("a keeper that loses a part of an image gets another one, from its start") {
  World world;
  const std::string value(1 << 20, 'v');
  for (int key = 0; key < 12; ++key) {
    world.say(bytes_of(c10d::Set{.key = "k" + std::to_string(key), .value = value}));
  }
  while (world.step()) continue;
  world.logs.shorten(world.kept, replayed_job);
  while (world.kept.begun < 2) REQUIRE(world.step());
  world.logs.renew(world.kept, replayed_job);
  CHECK_FALSE(world.logs.is_whole_at(world.kept));
  world.kept.whole.clear();
  while (world.step()) continue;
  CHECK(world.kept.begun == 3);
  CHECK(world.logs.is_whole_at(world.kept));
  CHECK(world.is_kept());
}

TEST_CASE("an image waits for its keeper and resumes on request") {
  World world;
  const std::string value(1 << 20, 'v');
  for (int key = 0; key < 12; ++key) {
    world.say(bytes_of(c10d::Set{.key = "k" + std::to_string(key), .value = value}));
  }
  while (world.step()) continue;
  world.logs.shorten(world.kept, replayed_job);
  while (world.kept.begun < 2) REQUIRE(world.step());
  const std::size_t size = world.kept.image.size();
  world.kept.has_room = false;
  while (world.step()) continue;
  CHECK(world.kept.image.size() == size);
  CHECK(world.is_kept());
  world.kept.has_room = true;
  world.logs.resume_images();
  while (world.step()) continue;
  CHECK(world.kept.wholes == 2);
  CHECK(world.is_kept());
}

}  // namespace store_logs_test
