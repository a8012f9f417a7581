// SPDX-License-Identifier: BSD-3-Clause
// A store that continues in another process. Workers of several nodes use a chain of processes one
// after the other, each of which has read the log of its predecessor, and see one store. A message
// to a node leaves only when the next process has its cause.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/store/store_streams.h"
#include "tests/rendezvous/coordinator/io/replayed_process.h"
#include "tests/rendezvous/store/linearizable.h"

namespace store_replay_test {

using namespace cpprun;

namespace {

std::string bytes_of(const c10d::Request& request) {
  std::string bytes;
  c10d::encode(request, c10d::Dialect::d, bytes);
  return bytes;
}

class Played {
 public:
  explicit Played(unsigned seed) : random_(seed) {
    leader_ = std::make_unique<ReplayedProcess>();
    leader_->decide();
    next_ = std::make_unique<ReplayedProcess>();
    next_->read();
    for (Node& node : nodes_) {
      for (Worker& worker : node.workers) connect(node, worker);
    }
  }

  void play(int steps) {
    for (int step = 0; step < steps; ++step) act(steps - step > steps / 4);
    while (leader_->image) go_on_with_image();
    for (int turn = 0; turn < 300; ++turn) {
      for (std::size_t node = 0; node < nodes_.size(); ++node) exchange(node, true);
    }
    for (std::size_t key = 0; key < history_.size(); ++key) {
      CHECK(objection_to(history_[key], KeyAtEnd{.value = value_of(key)}) == "");
    }
  }

  std::size_t answered = 0;
  int takeovers = 0;
  int images = 0;

 private:
  struct Asked {
    std::size_t at = 0;  // in the history of its key, for an ADD
    std::size_t key = 0;
    char kind = 'a';
  };
  struct Worker {
    int client = 0;
    StreamId stream;
    std::deque<Asked> asked;
    std::string heard;
  };
  struct Node {
    StoreStreams agent{round_one, replayed_window};
    std::deque<std::string> up;
    std::array<Worker, 3> workers;
  };

  std::size_t roll(std::size_t sides) { return random_() % sides; }

  void connect(Node& node, Worker& worker) {
    worker = {.client = ++clients_};
    worker.stream = node.agent.open();
    node.agent.say(worker.stream, bytes_of(c10d::Validate{}));
  }

  void act(bool may_ask) {
    const std::size_t at = roll(nodes_.size());
    Node& node = nodes_[at];
    Worker& worker = node.workers[roll(node.workers.size())];
    switch (roll(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (may_ask) ask(node, worker);
        return;
      case 4:
        if (roll(20) == 0) {
          node.agent.close(worker.stream);
          connect(node, worker);
        }
        return;
      case 5:
        if (roll(15) == 0 && !leader_->image) take_over();
        return;
      case 6:
        if (roll(10) == 0 && !leader_->image) begin_image();
        if (leader_->image) go_on_with_image();
        return;
      default:
        return exchange(at, false);
    }
  }

  // Several requests may be in flight on one connection, and one may arrive in parts.
  void ask(Node& node, Worker& worker) {
    if (worker.asked.size() > 3) return;
    const std::size_t key = roll(history_.size());
    const std::string name = "k" + std::to_string(key);
    const std::string other = "x" + std::to_string(roll(3));
    Asked asked{.key = key};
    std::string bytes;
    switch (roll(9)) {
      case 0:
        bytes = bytes_of(c10d::Set{.key = other, .value = std::string(roll(60), 'v')});
        asked.kind = 0;
        break;
      case 1:
        bytes = bytes_of(c10d::Get{.key = other});
        asked.kind = 'g';
        break;
      case 2:
        bytes = bytes_of(c10d::Append{.key = other, .value = "v"});
        asked.kind = 0;
        break;
      case 3: {
        const std::string_view keys[] = {other};
        bytes = bytes_of(c10d::Wait{keys});
        asked.kind = 'w';
        break;
      }
      case 4:
        bytes = bytes_of(c10d::DeleteKey{.key = other});
        asked.kind = 'd';
        break;
      case 5:
        bytes = bytes_of(c10d::QueuePush{.key = "q" + other, .value = "v"});
        asked.kind = 0;
        break;
      case 6:
        bytes = bytes_of(c10d::ListKeys{});
        asked.kind = 'l';
        break;
      default: {
        StoreOperation add{.kind = StoreOperation::Kind::add,
                           .delta = static_cast<std::int64_t>(roll(2)),
                           .client = worker.client,
                           .began = ++moment_};
        bytes = bytes_of(c10d::Add{.key = name, .delta = add.delta});
        if (node.agent.room(worker.stream) < bytes.size()) return;
        asked.at = history_[key].size();
        history_[key].push_back(add);
        break;
      }
    }
    if (node.agent.room(worker.stream) < bytes.size()) return;
    // A waiting client sends nothing else before it has its answer.
    if (!worker.asked.empty() && worker.asked.back().kind == 'w' && asked.kind == 'a') {
      history_[key].pop_back();
    }
    if (!worker.asked.empty() && worker.asked.back().kind == 'w') return;
    node.agent.say(worker.stream, bytes);
    if (asked.kind != 0) worker.asked.push_back(asked);
  }

  void exchange(std::size_t at, bool all) {
    Node& node = nodes_[at];
    do {
      if (node.agent.has_frame()) node.up.push_back(node.agent.next_frame());
      if (!node.up.empty() && (all || roll(2) == 0)) {
        leader_->hear(int(at), node.up.front());
        node.up.pop_front();
      }
      leader_->work();
      synchronise();
      auto& down = leader_->down[at];
      if (leader_->image) break;  // the next process does not know the cause yet
      if (!down.empty() && (all || roll(2) == 0)) {
        link::StreamFrameReader records(std::string_view(down.front()).substr(4));
        REQUIRE(records.round());
        const auto heard = node.agent.hear(records);
        REQUIRE_MESSAGE(heard, (heard ? "" : heard.error().reason));
        down.pop_front();
      }
      hear_agent(node);
    } while (all && (!node.up.empty() || !leader_->down[at].empty()));
  }

  // Before any message arrives. The log is cut at a random place.
  void synchronise() {
    if (leader_->image) return;
    std::string bytes = leader_->log.take();
    REQUIRE(!leader_->log.is_lost());
    tell_next(std::move(bytes));
    CHECK(contents_of(leader_->store()) == contents_of(next_->store()));
  }

  void tell_next(std::string bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), 1 + roll(40));
      const auto heard = next_->replay->hear(bytes.substr(0, count));
      REQUIRE_MESSAGE(heard, (heard ? "" : heard.error().reason));
      bytes.erase(0, count);
    }
    next_->work();
    REQUIRE(next_->replay->is_whole());
  }

  void take_over() {
    leader_->work();
    synchronise();
    leader_ = std::exchange(next_, nullptr);
    leader_->take_over();
    leader_->work();
    for (Node& node : nodes_) {
      node.up.clear();
      node.agent.begin_link();
    }
    ++takeovers;
    begin_image();
  }

  // The next process starts with the state at some moment.
  void begin_image() {
    leader_->work();
    next_ = std::make_unique<ReplayedProcess>();
    next_->read();
    leader_->begin_image();
    ++images;
  }
  void go_on_with_image() {
    leader_->work();
    const std::uint64_t taken = leader_->log.written() - leader_->log.size();
    const bool is_whole = leader_->image->go_on();
    REQUIRE(!leader_->image->is_lost());
    tell_next(leader_->image->take());
    if (!is_whole) return;
    // It includes everything that was written before it.
    const std::string bytes = leader_->log.take();
    tell_next(bytes.substr(*leader_->image->at() - taken));
    leader_->image.reset();
    leader_->work();
    synchronise();
  }

  void hear_agent(Node& node) {
    while (const auto change = node.agent.next_change()) {
      for (Worker& worker : node.workers) {
        if (worker.stream != change->stream) continue;
        const std::string_view bytes = node.agent.heard(worker.stream);
        worker.heard.append(bytes);
        node.agent.take(worker.stream, bytes.size());
        while (understand(worker)) continue;
      }
    }
  }

  static std::optional<std::size_t> size_of_reply(const std::string& heard, char kind) {
    if (kind == 'w') return 1;
    if (heard.size() < sizeof(std::uint64_t)) return std::nullopt;
    std::uint64_t number = 0;
    std::memcpy(&number, heard.data(), sizeof number);
    if (kind == 'a' || kind == 'd') return sizeof number;
    if (kind == 'g') return sizeof number + number;
    std::size_t at = sizeof number;
    for (std::uint64_t key = 0; key < number; ++key) {
      std::uint64_t length = 0;
      if (heard.size() < at + sizeof length) return std::nullopt;
      std::memcpy(&length, heard.data() + at, sizeof length);
      at += sizeof length + length;
    }
    return at;
  }

  bool understand(Worker& worker) {
    if (worker.heard.empty()) return false;
    REQUIRE(!worker.asked.empty());
    const Asked asked = worker.asked.front();
    const auto size = size_of_reply(worker.heard, asked.kind);
    if (!size || worker.heard.size() < *size) return false;
    if (asked.kind == 'a') {
      StoreOperation& add = history_[asked.key][asked.at];
      std::memcpy(&add.number, worker.heard.data(), sizeof add.number);
      add.is_answered = true;
      add.ended = ++moment_;
    }
    if (asked.kind == 'g') {
      const auto value = worker.heard.substr(sizeof(std::uint64_t), *size - sizeof(std::uint64_t));
      CHECK(value.find_first_not_of('v') == std::string::npos);
    }
    if (asked.kind == 'w') CHECK(worker.heard.front() == 0);
    worker.heard.erase(0, *size);
    worker.asked.pop_front();
    ++answered;
    return true;
  }

  std::string value_of(std::size_t key) {
    Actions actions;
    const std::string name = "k" + std::to_string(key);
    leader_->store().apply(ConnectionId{1ULL << 50}, c10d::Get{.key = name}, actions);
    return std::string(std::get<c10d::Value>(std::get<Answer>(actions.at(0)).reply).value);
  }

  std::mt19937 random_;
  std::uint64_t moment_ = 0;
  int clients_ = 0;
  std::unique_ptr<ReplayedProcess> leader_;
  std::unique_ptr<ReplayedProcess> next_;
  std::array<Node, 3> nodes_;
  std::array<std::vector<StoreOperation>, 2> history_;  // by key
};

}  // namespace

TEST_CASE("a store that moves from process to process is one store to all workers") {
  std::size_t answered = 0;
  int takeovers = 0;
  int images = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Played played(seed);
    played.play(2000);
    answered += played.answered;
    takeovers += played.takeovers;
    images += played.images;
  }
  MESSAGE(answered << " answers, " << takeovers << " takeovers, " << images << " images");
  CHECK(answered > 2'000);
  CHECK(takeovers > 50);
  CHECK(images > takeovers);
}

}  // namespace store_replay_test
