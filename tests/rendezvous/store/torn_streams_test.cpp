// SPDX-License-Identifier: BSD-3-Clause
// Streams between two ends whose link breaks at random.

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <string>

#include "rendezvous/store/store_streams.h"

namespace torn_streams_test {

using namespace cpprun;

namespace {

constexpr RoundNumber round_one{1};

// The byte that one side sends at that position.
char byte_at(StreamId stream, bool of_agent, std::uint64_t place) {
  return static_cast<char>(stream.value * 7 + place * 31 + (of_agent ? 0 : 101));
}

// Two ends whose link delivers frames late and breaks: frames in flight are then lost. Every byte
// that is read must be the next byte that was sent.
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

  // No side sends new bytes; all bytes are read, and all streams are closed.
  void run_until_idle() {
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
      // Only the other side has ended it, and all bytes of that side have arrived.
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
    link::StreamFrameReader records(std::string_view(frames.front()).substr(4));
    REQUIRE(records.round() == round_one);
    REQUIRE(to.hear(records));
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
    torn.run_until_idle();
    taken += torn.taken();
  }
  CHECK(taken > 1'000'000);
}

}  // namespace torn_streams_test
