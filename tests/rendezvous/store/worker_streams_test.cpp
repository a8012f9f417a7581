// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_streams.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace worker_streams_test {

using namespace cpprun;

namespace {

constexpr RoundNumber first_round{1};

// A worker's connection as a string: it accepts that many bytes.
class End : public WorkerConnection {
 public:
  explicit End(WorkerStreams& streams) : streams_(streams) {}
  void begin(const std::shared_ptr<End>& self) { stream = streams_.open(self); }
  void read_on() override { ++read_on_count; }
  void write_on() override {
    const std::string_view bytes = streams_.heard(stream).substr(0, room);
    heard.append(bytes);
    room -= bytes.size();
    streams_.take(stream, bytes.size());
  }
  void end() override { is_over = true; }
  void drop() override { is_dropped = true; }

  StreamId stream{};
  std::string heard;
  std::size_t room = 1000;
  int read_on_count = 0;
  bool is_over = false;
  bool is_dropped = false;

 private:
  WorkerStreams& streams_;
};

// A node's end of a link, and the coordinator's.
struct Node {
  explicit Node(std::size_t window = 64)
      : streams({.has_room = [this] { return link_has_room; },
                 .send = [this](std::string_view frame) { said.emplace_back(frame); },
                 .turn_soon = [this] { ++turns_wanted; }},
                window),
        coordinator(first_round, window) {}

  std::shared_ptr<End> connect() {
    auto end = std::make_shared<End>(streams);
    end->begin(end);
    return end;
  }
  // Delivers the worker's bytes; returns what the coordinator has received of that stream.
  std::string arrive(StreamId stream) {
    for (const std::string& frame : std::exchange(said, {})) {
      link::StreamFrameReader records(std::string_view(frame).substr(4));
      REQUIRE(records.round());
      REQUIRE(coordinator.hear(records));
    }
    std::string heard(coordinator.heard(stream));
    coordinator.take(stream, heard.size());
    return heard;
  }
  // Delivers the coordinator's bytes.
  void answer() {
    while (coordinator.has_frame()) {
      const std::string frame = coordinator.next_frame();
      CHECK(streams.hear(std::string_view(frame).substr(4)) == "");
    }
  }

  bool link_has_room = true;
  std::vector<std::string> said;
  int turns_wanted = 0;
  WorkerStreams streams;
  StoreStreams coordinator;
};

}  // namespace

TEST_CASE("before a round no worker is admitted") {
  Node node;
  CHECK(node.streams.objection() == "no round has begun");
  node.streams.begin_round(first_round);
  CHECK(node.streams.objection() == "");
}

TEST_CASE("one worker's bytes leave at once, and those of several workers together") {
  Node node;
  node.streams.begin_round(first_round);
  const auto one = node.connect();
  const auto other = node.connect();
  node.streams.say(one->stream, "a");
  CHECK(node.turns_wanted == 1);
  node.streams.turn();
  CHECK(node.said.size() == 1);
  node.streams.say(one->stream, "b");
  CHECK(node.said.size() == 2);
  node.streams.say(other->stream, "c");
  node.streams.say(one->stream, "d");
  CHECK(node.said.size() == 2);
  CHECK(node.turns_wanted == 2);
  node.streams.turn();
  CHECK(node.said.size() == 3);
  CHECK(node.arrive(one->stream) == "abd");
  CHECK(node.arrive(other->stream) == "c");
}

TEST_CASE("bytes that a worker sent while the link was full or gone leave when there is room") {
  Node node;
  node.streams.begin_round(first_round);
  const auto worker = node.connect();
  node.link_has_room = false;
  node.streams.say(worker->stream, "asked");
  node.streams.turn();
  CHECK(node.said.empty());
  node.link_has_room = true;
  node.streams.go_on();
  node.said.clear();  // and is lost with its link
  node.streams.begin_link();
  node.coordinator.begin_link();
  CHECK(node.arrive(worker->stream) == "asked");
}

TEST_CASE("a worker is written to, read from and closed as its store decides") {
  Node node(4);
  node.streams.begin_round(first_round);
  const auto worker = node.connect();
  node.streams.say(worker->stream, "full");
  node.streams.turn();
  CHECK(node.streams.room(worker->stream) == 0);
  CHECK(node.arrive(worker->stream) == "full");
  node.coordinator.say(worker->stream, "told");
  node.coordinator.close(worker->stream);
  worker->room = 1;
  node.answer();
  CHECK(worker->read_on_count == 1);
  CHECK(worker->heard == "t");
  CHECK_FALSE(worker->is_over);
  worker->room = 10;
  worker->write_on();
  node.streams.turn();
  CHECK(worker->heard == "told");
  CHECK(worker->is_over);
  CHECK_FALSE(node.streams.check());
}

TEST_CASE("with a new round every connection of the previous one is dropped") {
  Node node;
  node.streams.begin_round(first_round);
  const auto worker = node.connect();
  node.streams.say(worker->stream, "asked");
  node.streams.turn();
  CHECK(node.arrive(worker->stream) == "asked");
  node.streams.begin_round(RoundNumber{2});
  CHECK(worker->is_dropped);
  // Its answer is in flight, and has no recipient.
  node.coordinator.say(worker->stream, "told");
  node.answer();
  CHECK(worker->heard == "");
  CHECK(node.streams.hear("no frame") != "");
}

TEST_CASE("a node that rejoins sends nothing of its last round to a round with the same number") {
  Node node;
  node.streams.begin_round(first_round);
  const auto worker = node.connect();
  node.link_has_room = false;
  node.streams.say(worker->stream, "asked");
  node.streams.end_round();
  CHECK(worker->is_dropped);
  CHECK(node.streams.objection() == "no round has begun");
  node.link_has_room = true;
  node.streams.begin_link();
  node.streams.go_on();
  node.streams.turn();
  CHECK(node.said.empty());
}

}  // namespace worker_streams_test
