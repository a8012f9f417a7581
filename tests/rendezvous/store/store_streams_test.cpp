// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_streams.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "rendezvous/store/bounds.h"

namespace store_streams_test {

using namespace cpprun;
using Kind = link::StreamRecord::Kind;

namespace {

constexpr RoundNumber round_one{1};

// Passes on a whole frame; returns the error, or an empty string if it was accepted.
std::string hear(StoreStreams& streams, std::string_view frame) {
  const auto inside = link::first_frame(frame);
  REQUIRE(inside);
  REQUIRE(*inside);
  link::StreamFrameReader reader(**inside);
  REQUIRE(reader.round() == round_one);
  const auto heard = streams.hear(reader);
  return heard ? std::string() : heard.error().reason;
}

std::string hear(StoreStreams& streams, const std::vector<link::StreamRecord>& records) {
  link::StreamFrameWriter writer(round_one);
  for (const auto& record : records) writer.add(record);
  return hear(streams, writer.finish());
}

// An agent and a coordinator, and a link between them that loses nothing.
struct Pair {
  explicit Pair(std::size_t window = bounds::store_stream_window)
      : agent(round_one, window), coordinator(round_one, window) {}

  void exchange() {
    while (agent.has_frame() || coordinator.has_frame()) {
      if (agent.has_frame()) CHECK(hear(coordinator, agent.next_frame()) == "");
      if (coordinator.has_frame()) CHECK(hear(agent, coordinator.next_frame()) == "");
    }
    CHECK(agent.check().value_or("") == "");
    CHECK(coordinator.check().value_or("") == "");
  }

  StoreStreams agent;
  StoreStreams coordinator;
};

}  // namespace

TEST_CASE("a worker's bytes arrive, and so does the reply") {
  Pair pair;
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, "get");
  pair.exchange();
  const auto news = pair.coordinator.next_change();
  REQUIRE(news);
  CHECK(news->stream == stream);
  CHECK(news->is_new);
  CHECK(news->has_bytes);
  CHECK_FALSE(pair.coordinator.next_change());
  CHECK(pair.coordinator.heard(stream) == "get");
  pair.coordinator.take(stream, 3);
  pair.coordinator.say(stream, "value");
  pair.exchange();
  CHECK(pair.agent.next_change()->has_bytes);
  CHECK(pair.agent.heard(stream) == "value");
}

TEST_CASE("the bytes of several workers leave in one frame") {
  Pair pair;
  for (int worker = 0; worker < 8; ++worker) pair.agent.say(pair.agent.open(), "ask");
  CHECK(hear(pair.coordinator, pair.agent.next_frame()) == "");
  CHECK_FALSE(pair.agent.has_frame());
  CHECK(pair.coordinator.size() == 8);
}

TEST_CASE("a stream ends for the other side after all of its bytes are read") {
  Pair pair;
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, "last words");
  pair.agent.close(stream);
  pair.exchange();
  CHECK_FALSE(pair.coordinator.next_change()->is_over);
  pair.coordinator.take(stream, 4);
  CHECK_FALSE(pair.coordinator.next_change());
  pair.coordinator.take(stream, 6);
  CHECK(pair.coordinator.next_change()->is_over);
  CHECK(pair.agent.size() == 1);
  pair.coordinator.close(stream);
  pair.exchange();
  CHECK(pair.agent.size() == 0);
  CHECK(pair.coordinator.size() == 0);
  CHECK(pair.agent.bytes_held() + pair.coordinator.bytes_held() == 0);
}

TEST_CASE("the store's last answer is delivered before its close") {
  Pair pair;
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, "nonsense");
  pair.exchange();
  pair.coordinator.say(stream, "answer");
  pair.coordinator.close(stream);
  pair.exchange();
  const auto news = pair.agent.next_change();
  REQUIRE(news);
  CHECK(news->has_bytes);
  CHECK_FALSE(news->is_over);
  CHECK(pair.agent.heard(stream) == "answer");
  pair.agent.take(stream, 6);
  CHECK(pair.agent.next_change()->is_over);
  CHECK(pair.agent.room(stream) == 0);
  pair.agent.close(stream);
  pair.exchange();
  CHECK(pair.agent.size() + pair.coordinator.size() == 0);
}

TEST_CASE("an endpoint that does not read receives at most a window, and more when it reads") {
  Pair pair(1000);
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, std::string(1000, 'a'));
  CHECK(pair.agent.room(stream) == 0);
  pair.exchange();
  CHECK(pair.agent.room(stream) == 0);
  pair.coordinator.take(stream, 100);  // too little for a message of its own
  pair.exchange();
  CHECK(pair.agent.room(stream) == 0);
  pair.coordinator.take(stream, 300);
  pair.exchange();
  CHECK(pair.agent.room(stream) == 400);
  CHECK(pair.agent.next_change()->has_room);
}

TEST_CASE(
    "a worker that came and went while the link was broken has its requests carried out once") {
  Pair pair;
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, "add 1");
  pair.agent.close(stream);
  // It arrives, is carried out and answered, but the confirmation is lost.
  CHECK(hear(pair.coordinator, pair.agent.next_frame()) == "");
  pair.coordinator.take(stream, 5);
  pair.coordinator.close(stream);
  CHECK(pair.coordinator.next_frame() != "");
  CHECK(pair.coordinator.size() == 0);
  while (pair.coordinator.next_change()) continue;
  pair.agent.begin_link();
  pair.coordinator.begin_link();
  pair.exchange();
  CHECK_FALSE(pair.coordinator.next_change());
  CHECK(pair.coordinator.size() == 0);
  CHECK(pair.agent.size() == 0);
}

TEST_CASE("a violation of the protocol is reported to its sender") {
  const auto problem = [](const std::vector<link::StreamRecord>& records) {
    StoreStreams coordinator(round_one, 100);
    return hear(coordinator, records);
  };
  const StreamId one{1};
  const link::StreamRecord open{.kind = Kind::open, .stream = one};
  CHECK(problem({{.kind = Kind::bytes, .stream = one, .place = 0, .bytes = "x"}}) ==
        "a link frame names stream 1, which was never opened");
  CHECK(problem({open, {.kind = Kind::bytes, .stream = one, .place = 2, .bytes = "x"}}) ==
        "a link frame skips bytes of stream 1");
  CHECK(problem({open, {.kind = Kind::taken, .stream = one, .place = 1}}) ==
        "a link frame acknowledges more data than was sent on stream 1");
  const std::string much(101, 'x');
  CHECK(problem({open, {.kind = Kind::bytes, .stream = one, .place = 0, .bytes = much}}) ==
        "received more than 100 bytes on stream 1, which were not requested");
  CHECK(problem({open,
                 {.kind = Kind::bytes, .stream = one, .place = 0, .bytes = "xyz"},
                 {.kind = Kind::closed, .stream = one, .place = 2}}) ==
        "a link frame closes stream 1 at byte 2, but 3 bytes were received");
  CHECK(problem({open,
                 {.kind = Kind::closed, .stream = one, .place = 2},
                 {.kind = Kind::bytes, .stream = one, .place = 0, .bytes = "xyz"}}) ==
        "received more data on stream 1 after its end");
  std::vector<link::StreamRecord> crowd;
  StoreStreams crowded(round_one);
  std::string refusal;
  for (std::uint32_t id = 1; refusal.empty() && id < 100'000; ++id) {
    refusal = hear(crowded, {{.kind = Kind::open, .stream = StreamId{id}}});
  }
  CHECK(refusal == "workers opened more than 65536 connections to one store");
}

TEST_CASE("a dropped stream ends for the other side, with the bytes that it has accepted") {
  for (const bool is_broken : {false, true}) {
    CAPTURE(is_broken);
    Pair pair(1000);
    const StreamId stream = pair.agent.open();
    pair.agent.say(stream, "get");
    pair.exchange();
    pair.coordinator.say(stream, std::string(1000, 'v'));
    pair.coordinator.drop(stream);
    CHECK(pair.coordinator.size() == 0);
    CHECK(pair.coordinator.bytes_held() == 0);
    if (is_broken) {
      CHECK(pair.coordinator.next_frame() != "");  // the lost frame
      pair.agent.begin_link();
      pair.coordinator.begin_link();
    }
    pair.exchange();
    CHECK(pair.agent.next_change()->is_over);
    pair.agent.close(stream);
    pair.exchange();
    CHECK(pair.agent.size() == 0);
  }
}

TEST_CASE("a message about a closed stream is answered once, and repeated ones close the link") {
  StoreStreams coordinator(round_one);
  const link::StreamRecord open{.kind = Kind::open, .stream = StreamId{1}};
  const link::StreamRecord closed{.kind = Kind::closed, .stream = StreamId{1}, .place = 0};
  CHECK(hear(coordinator, {open,
                           closed,
                           {.kind = Kind::open, .stream = StreamId{2}},
                           {.kind = Kind::closed, .stream = StreamId{2}, .place = 0}}) == "");
  for (const std::uint32_t id : {1U, 2U}) coordinator.close(StreamId{id});
  CHECK(coordinator.next_frame() != "");
  CHECK(hear(coordinator, {open, open, closed}) == "");
  const std::size_t one = coordinator.next_frame().size();
  CHECK(hear(coordinator, {open, closed, open}) == "");
  CHECK(coordinator.next_frame().size() == one);
  std::string refusal;
  const link::StreamRecord other{.kind = Kind::open, .stream = StreamId{2}};
  for (int turn = 0; refusal.empty() && turn < 100'000; ++turn) {
    refusal = hear(coordinator, {open, other});
  }
  CHECK(refusal == "received too many records about closed streams");
}

}  // namespace store_streams_test
