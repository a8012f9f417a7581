// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_streams.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "proto/bounds.h"

using namespace cpprun;
using Kind = link::StreamRecord::Kind;

namespace {

constexpr RoundNumber round_one{1};

// Hears a whole frame. Empty: it was taken.
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

TEST_CASE("what a worker says arrives, and so does what it is answered") {
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

TEST_CASE("what several workers say at the same time leaves in one frame") {
  Pair pair;
  for (int worker = 0; worker < 8; ++worker) pair.agent.say(pair.agent.open(), "ask");
  CHECK(hear(pair.coordinator, pair.agent.next_frame()) == "");
  CHECK_FALSE(pair.agent.has_frame());
  CHECK(pair.coordinator.size() == 8);
}

TEST_CASE("a stream ends for the other side when everything that was said is taken") {
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

TEST_CASE("whoever does not take is told no more than a window, and goes on when it does") {
  Pair pair(1000);
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, std::string(1000, 'a'));
  CHECK(pair.agent.room(stream) == 0);
  pair.exchange();
  CHECK(pair.agent.room(stream) == 0);
  pair.coordinator.take(stream, 100);  // too little to be told for itself
  pair.exchange();
  CHECK(pair.agent.room(stream) == 0);
  pair.coordinator.take(stream, 300);
  pair.exchange();
  CHECK(pair.agent.room(stream) == 400);
  CHECK(pair.agent.next_change()->has_room);
}

TEST_CASE("a worker that came and went while the link was broken has spoken once") {
  Pair pair;
  const StreamId stream = pair.agent.open();
  pair.agent.say(stream, "add 1");
  pair.agent.close(stream);
  // It arrives, is carried out and answered, and nobody hears that it was.
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

TEST_CASE("whoever does not keep to the rules is told so") {
  const auto complaint = [](const std::vector<link::StreamRecord>& records) {
    StoreStreams coordinator(round_one, 100);
    return hear(coordinator, records);
  };
  const StreamId one{1};
  const link::StreamRecord open{.kind = Kind::open, .stream = one};
  CHECK(complaint({{.kind = Kind::bytes, .stream = one, .place = 0, .bytes = "x"}}) ==
        "a link frame about stream 1, which nobody has opened");
  CHECK(complaint({open, {.kind = Kind::bytes, .stream = one, .place = 2, .bytes = "x"}}) ==
        "a link frame that leaves bytes of stream 1 out");
  CHECK(complaint({open, {.kind = Kind::taken, .stream = one, .place = 1}}) ==
        "a link frame that takes what stream 1 never said");
  const std::string much(101, 'x');
  CHECK(complaint({open, {.kind = Kind::bytes, .stream = one, .place = 0, .bytes = much}}) ==
        "more than 100 bytes of stream 1, which nobody has asked for");
  CHECK(complaint({open,
                   {.kind = Kind::bytes, .stream = one, .place = 0, .bytes = "xyz"},
                   {.kind = Kind::closed, .stream = one, .place = 2}}) ==
        "a link frame that ends stream 1 before what was said");
  CHECK(complaint({open,
                   {.kind = Kind::closed, .stream = one, .place = 2},
                   {.kind = Kind::bytes, .stream = one, .place = 0, .bytes = "xyz"}}) ==
        "bytes of stream 1 behind its end");
  std::vector<link::StreamRecord> crowd;
  StoreStreams crowded(round_one);
  std::string refusal;
  for (std::uint32_t id = 1; refusal.empty() && id < 100'000; ++id) {
    refusal = hear(crowded, {{.kind = Kind::open, .stream = StreamId{id}}});
  }
  CHECK(refusal == "more than 65536 connections of workers to one store");
}

// --- a link that breaks --------------------------------------------------------------------------

namespace {

// The byte that one side says at that place.
char byte_at(StreamId stream, bool of_agent, std::uint64_t place) {
  return static_cast<char>(stream.value * 7 + place * 31 + (of_agent ? 0 : 101));
}

// Two ends whose link delivers frames late, and breaks: what is under way is lost then. Every byte
// that is taken has to be the next one that was said.
class Torn {
 public:
  explicit Torn(unsigned seed)
      : random_(seed), agent_(round_one, 64), coordinator_(round_one, 64) {}

  void play(int steps) {
    for (int step = 0; step < steps; ++step) {
      act();
      REQUIRE(agent_.check().value_or("") == "");
      REQUIRE(coordinator_.check().value_or("") == "");
    }
  }

  // Nobody says anything new, everybody takes everything, and leaves.
  void settle() {
    break_link();
    for (int turn = 0; turn < 1000 && (agent_.size() > 0 || coordinator_.size() > 0); ++turn) {
      deliver(to_coordinator_, coordinator_);
      deliver(to_agent_, agent_);
      send();
      for (const bool of_agent : {true, false}) {
        look(of_agent);
        for (auto& [stream, end] : ends(of_agent)) {
          take(of_agent, stream, end, 64);
          if (of_agent) close(of_agent, stream, end);
          if (end.is_over) close(of_agent, stream, end);
        }
      }
    }
    CHECK(agent_.size() == 0);
    CHECK(coordinator_.size() == 0);
    CHECK(agent_.bytes_held() + coordinator_.bytes_held() == 0);
  }

  std::uint64_t taken() const { return taken_; }

 private:
  struct End {
    std::uint64_t said = 0;
    std::uint64_t heard = 0;
    bool is_closed = false;
    bool is_over = false;
  };

  unsigned roll(unsigned sides) { return static_cast<unsigned>(random_() % sides); }
  StoreStreams& side(bool of_agent) { return of_agent ? agent_ : coordinator_; }
  std::map<StreamId, End>& ends(bool of_agent) {
    return of_agent ? ends_of_agent_ : ends_of_coordinator_;
  }

  void act() {
    const bool of_agent = roll(2) == 0;
    switch (roll(12)) {
      case 0:
        if (ends_of_agent_.size() < 40) ends_of_agent_[agent_.open()] = {};
        return;
      case 1:
        if (roll(6) == 0) break_link();
        return;
      case 2:
        return with_some(of_agent, [&](StreamId stream, End& end) {
          if (roll(4) == 0 || end.is_over) close(of_agent, stream, end);
        });
      case 3:
      case 4:
      case 5:
        return with_some(of_agent, [&](StreamId stream, End& end) { say(of_agent, stream, end); });
      case 6:
      case 7:
        return with_some(of_agent, [&](StreamId stream, End& end) {
          take(of_agent, stream, end, 1 + roll(64));
        });
      case 8:
        return deliver(to_coordinator_, coordinator_);
      case 9:
        return deliver(to_agent_, agent_);
      case 10:
        return look(of_agent);
      default:
        return send();
    }
  }

  template <class Act>
  void with_some(bool of_agent, Act act) {
    auto& all = ends(of_agent);
    if (all.empty()) return;
    auto it = all.begin();
    std::advance(it, roll(static_cast<unsigned>(all.size())));
    act(it->first, it->second);
  }

  void say(bool of_agent, StreamId stream, End& end) {
    if (end.is_closed) return;
    const std::size_t most = side(of_agent).room(stream);
    std::string bytes;
    for (std::size_t count = roll(65); bytes.size() < std::min(count, most);) {
      bytes.push_back(byte_at(stream, of_agent, end.said++));
    }
    side(of_agent).say(stream, bytes);
  }

  void take(bool of_agent, StreamId stream, End& end, std::size_t count) {
    if (end.is_closed) return;
    const std::string_view bytes = side(of_agent).heard(stream).substr(0, count);
    for (const char byte : bytes) REQUIRE(byte == byte_at(stream, !of_agent, end.heard++));
    taken_ += bytes.size();
    side(of_agent).take(stream, bytes.size());
  }

  void close(bool of_agent, StreamId stream, End& end) {
    if (end.is_closed) return;
    end.is_closed = true;
    side(of_agent).close(stream);
  }

  void look(bool of_agent) {
    while (const auto change = side(of_agent).next_change()) {
      auto& all = ends(of_agent);
      if (change->is_new) {
        REQUIRE_FALSE(of_agent);
        REQUIRE_FALSE(all.contains(change->stream));
        all[change->stream] = {};
      }
      REQUIRE(all.contains(change->stream));
      End& end = all[change->stream];
      if (!change->is_over) continue;
      end.is_over = true;
      // Nobody has ended it but the other side, and all that was said there has come.
      const End& there = ends(!of_agent)[change->stream];
      REQUIRE(there.is_closed);
      if (!end.is_closed) REQUIRE(end.heard == there.said);
    }
  }

  void send() {
    if (agent_.has_frame()) to_coordinator_.push_back(agent_.next_frame());
    if (coordinator_.has_frame()) to_agent_.push_back(coordinator_.next_frame());
  }

  void deliver(std::deque<std::string>& frames, StoreStreams& to) {
    if (frames.empty()) return;
    REQUIRE(hear(to, frames.front()) == "");
    frames.pop_front();
  }

  void break_link() {
    to_coordinator_.clear();
    to_agent_.clear();
    agent_.begin_link();
    coordinator_.begin_link();
  }

  std::mt19937 random_;
  StoreStreams agent_;
  StoreStreams coordinator_;
  std::map<StreamId, End> ends_of_agent_;
  std::map<StreamId, End> ends_of_coordinator_;
  std::deque<std::string> to_coordinator_;
  std::deque<std::string> to_agent_;
  std::uint64_t taken_ = 0;
};

}  // namespace

TEST_CASE("however often the link breaks, every byte arrives once and in order") {
  std::uint64_t taken = 0;
  for (unsigned seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Torn torn(seed);
    torn.play(1500);
    torn.settle();
    taken += torn.taken();
  }
  CHECK(taken > 1'000'000);
}

TEST_CASE("a stream that is dropped ends for the other side, with what it has taken") {
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
      CHECK(pair.coordinator.next_frame() != "");  // which is lost
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

TEST_CASE("whoever speaks of what is over is answered once, and cut off where it does not listen") {
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
  CHECK(refusal == "it speaks of streams that are over, and does not listen");
}
