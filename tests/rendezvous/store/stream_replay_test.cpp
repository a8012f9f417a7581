// SPDX-License-Identifier: BSD-3-Clause
// Streams of another process that resume here. Complete conversations are in
// tests/rendezvous/coordinator/io/store_replay_test.cpp.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "rendezvous/store/store_streams.h"

namespace stream_replay_test {

using namespace cpprun;

namespace {

constexpr RoundNumber round_one{1};
constexpr std::size_t window = 8;

// Delivers every frame of one end to the other.
void exchange(StoreStreams& from, StoreStreams& to) {
  while (from.has_frame()) {
    const std::string frame = from.next_frame();
    link::StreamFrameReader records(std::string_view(frame).substr(4));
    REQUIRE(records.round());
    const auto heard = to.hear(records);
    CHECK_MESSAGE(heard, (heard ? "" : heard.error().reason));
  }
}

class Noted : public StoreStreams::Journal {
 public:
  void taken(StreamId stream, std::uint64_t place) noexcept override {
    lines.push_back("taken " + std::to_string(stream.value) + " " + std::to_string(place));
  }
  void over(StreamId stream) noexcept override {
    lines.push_back("over " + std::to_string(stream.value));
  }
  std::vector<std::string> lines;
};

}  // namespace

TEST_CASE("an agent gets its missing bytes from another process and sends nothing twice") {
  StoreStreams agent(round_one, window);
  StoreStreams first(round_one, window);
  const StreamId stream = agent.open();
  agent.say(stream, "abcdef");
  exchange(agent, first);
  first.take(stream, 4);
  first.say(stream, "xyz");
  StoreStreams next(round_one, window);
  first.show([&](const StoreStreams::Shown& shown) { next.restore(shown); });
  next.replay_newest(first.newest());
  CHECK(next.check() == std::nullopt);
  // The first process's bytes never arrive.
  agent.begin_link();
  next.begin_link();
  exchange(agent, next);
  exchange(next, agent);
  CHECK(next.heard(stream) == "ef");
  CHECK(agent.heard(stream) == "xyz");
  CHECK(agent.room(stream) == window - 2);
}

TEST_CASE("bytes that were sent there and here are one stream, however small the window") {
  StoreStreams agent(round_one, window);
  StoreStreams first(round_one, window);
  StoreStreams next(round_one, window);
  const StreamId stream = agent.open();
  agent.say(stream, "a");
  exchange(agent, first);
  first.take(stream, 1);
  first.say(stream, "012");
  exchange(first, agent);
  agent.take(stream, 3);
  next.begin_replay();
  next.replay_open(stream);
  next.replay_take(stream, 1);
  REQUIRE(next.room(stream) > 3 * window);
  // The first process had decided that many bytes and would have sent them later.
  next.say(stream, "0123456789abcdefghij");
  next.end_replay();
  CHECK(next.room(stream) == 0);
  CHECK(next.check() == std::nullopt);
  agent.begin_link();
  next.begin_link();
  std::string heard;
  for (int turn = 0; turn < 10; ++turn) {
    exchange(agent, next);
    exchange(next, agent);
    heard += agent.heard(stream);
    agent.take(stream, agent.heard(stream).size());
  }
  CHECK(heard == "3456789abcdefghij");
}

TEST_CASE("a stream that has ended there has ended here") {
  StoreStreams next(round_one, window);
  next.replay_open(StreamId{4});
  CHECK(next.size() == 1);
  next.replay_over(StreamId{4});
  next.replay_over(StreamId{9});
  CHECK(next.size() == 0);
  CHECK(next.newest() == StreamId{4});
}

TEST_CASE("the journal records read bytes in large steps, and every end") {
  StoreStreams agent(round_one, 100'000);
  StoreStreams store(round_one, 100'000);
  Noted noted;
  store.keep_journal(&noted);
  const StreamId stream = agent.open();
  exchange(agent, store);
  store.say(stream, std::string(50'000, 'x'));
  exchange(store, agent);
  agent.take(stream, 50'000);
  exchange(agent, store);
  CHECK(noted.lines == std::vector<std::string>{"taken 1 50000"});
  store.say(stream, "y");
  exchange(store, agent);
  agent.take(stream, 1);
  agent.close(stream);
  exchange(agent, store);
  store.close(stream);
  exchange(store, agent);
  CHECK(noted.lines.back() == "over 1");
  CHECK(noted.lines.size() == 2);
}

}  // namespace stream_replay_test
