// SPDX-License-Identifier: BSD-3-Clause
// One store as workers of several nodes see it through links that break: the real sessions behind
// real streams, checked by their history (linearizable.h). Whole clusters do the same in tests/sim;
// here links break between any two frames.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/store/store_streams.h"
#include "tests/rendezvous/store/linearizable.h"
#include "tests/rendezvous/store/string_sockets.h"

namespace local_store_history_test {

using namespace cpprun;

namespace {

// Nodes with workers, a coordinator with the store, and links that deliver late and break.
class Played {
 public:
  explicit Played(unsigned seed) : random_(seed) {
    for (Node& node : nodes_) {
      for (Worker& worker : node.workers) connect(node, worker);
    }
  }

  void play(int steps) {
    for (now_ = 1; now_ <= steps; ++now_) act(steps - now_ > steps / 4);
    // Delivers everything in flight.
    for (int turn = 0; turn < 200; ++turn, ++now_) {
      for (Node& node : nodes_) exchange(node, true);
      work();
    }
    for (std::size_t key = 0; key < history_.size(); ++key) {
      CHECK(objection_to(history_[key], KeyAtEnd{.value = value_of(key)}) == "");
    }
  }

  std::size_t answered() const { return answered_; }

 private:
  struct Asked {
    std::size_t key = 0;
    std::size_t at = 0;  // in that key's history
  };
  struct Worker {
    int client = 0;
    StreamId stream;
    std::optional<Asked> asked;
    std::string heard;
  };
  struct Node {
    StoreStreams agent{RoundNumber{1}, 64};
    StoreStreams coordinator{RoundNumber{1}, 64};
    std::deque<std::string> up;
    std::deque<std::string> down;
    std::array<Worker, 3> workers;
    std::map<StreamId, int> clients;  // by socket
  };

  std::size_t roll(std::size_t sides) { return random_() % sides; }

  static std::string bytes_of(const c10d::Request& request) {
    std::string bytes;
    c10d::encode(request, c10d::Dialect::d, bytes);
    return bytes;
  }

  void connect(Node& node, Worker& worker) {
    worker = {.client = ++clients_};
    worker.stream = node.agent.open();
    node.agent.say(worker.stream, bytes_of(c10d::Validate{}));
  }

  void act(bool may_ask) {
    Node& node = nodes_[roll(nodes_.size())];
    switch (roll(10)) {
      case 0:
      case 1:
      case 2: {
        Worker& worker = node.workers[roll(node.workers.size())];
        if (may_ask && !worker.asked) ask(node, worker);
        return;
      }
      case 3:
        if (roll(12) == 0) return break_link(node);
        if (roll(12) == 0) {
          Worker& worker = node.workers[roll(node.workers.size())];
          node.agent.close(worker.stream);
          connect(node, worker);
        }
        return;
      case 4:
        return work();
      default:
        return exchange(node, false);
    }
  }

  static std::string name_of(std::size_t key) { return "k" + std::to_string(key); }

  void ask(Node& node, Worker& worker) {
    const std::size_t key = roll(history_.size());
    StoreOperation add{.kind = StoreOperation::Kind::add,
                       .delta = static_cast<std::int64_t>(roll(2)),
                       .client = worker.client,
                       .began = ++moment_};
    const std::string bytes = bytes_of(c10d::Add{.key = name_of(key), .delta = add.delta});
    if (node.agent.room(worker.stream) < bytes.size()) return;
    node.agent.say(worker.stream, bytes);
    worker.asked = {key, history_[key].size()};
    history_[key].push_back(add);
  }

  // One frame each way, or all.
  void exchange(Node& node, bool all) {
    do {
      if (node.agent.has_frame()) node.up.push_back(node.agent.next_frame());
      if (node.coordinator.has_frame()) node.down.push_back(node.coordinator.next_frame());
      if (all || roll(2) == 0) arrive(node.up, node.coordinator);
      if (all || roll(2) == 0) arrive(node.down, node.agent);
      hear_agent(node);
      hear_coordinator(node);
    } while (all && (!node.up.empty() || !node.down.empty()));
  }

  void arrive(std::deque<std::string>& frames, StoreStreams& at) {
    if (frames.empty()) return;
    const std::string frame = std::move(frames.front());
    frames.pop_front();
    link::StreamFrameReader records(std::string_view(frame).substr(4));
    REQUIRE(records.round());
    REQUIRE(at.hear(records));
  }

  void hear_coordinator(Node& node) {
    while (const auto change = node.coordinator.next_change()) {
      if (change->is_new) node.clients[change->stream] = sockets_.dial();
      const int client = node.clients.at(change->stream);
      const std::string_view bytes = node.coordinator.heard(change->stream);
      if (!sockets_[client].end) sockets_.say(client, bytes);
      node.coordinator.take(change->stream, bytes.size());
      if (!change->is_over) continue;
      left_.push_back(client);
      node.coordinator.close(change->stream);
      node.clients.erase(change->stream);
    }
  }

  // The store carries out the requests that have arrived, and its answers are sent.
  void work() {
    while (sockets_.turn()) continue;
    for (const int client : std::exchange(left_, {})) {
      if (!sockets_[client].end) sockets_.leave(client);
    }
    for (Node& node : nodes_) {
      for (const auto& [stream, client] : node.clients) {
        std::string& said = sockets_[client].heard;
        const std::size_t count = std::min(said.size(), node.coordinator.room(stream));
        node.coordinator.say(stream, std::string_view(said).substr(0, count));
        said.erase(0, count);
      }
    }
  }

  void hear_agent(Node& node) {
    while (const auto change = node.agent.next_change()) {
      for (Worker& worker : node.workers) {
        if (worker.stream != change->stream) continue;
        const std::string_view bytes = node.agent.heard(worker.stream);
        worker.heard.append(bytes);
        node.agent.take(worker.stream, bytes.size());
        REQUIRE(worker.heard.size() <= sizeof(std::int64_t));
        if (worker.heard.size() < sizeof(std::int64_t)) continue;
        REQUIRE(worker.asked);
        const Asked asked = *std::exchange(worker.asked, std::nullopt);
        StoreOperation& add = history_[asked.key][asked.at];
        std::memcpy(&add.number, worker.heard.data(), sizeof add.number);
        add.is_answered = true;
        add.ended = ++moment_;
        worker.heard.clear();
        ++answered_;
      }
    }
  }

  void break_link(Node& node) {
    node.up.clear();
    node.down.clear();
    node.agent.begin_link();
    node.coordinator.begin_link();
  }

  std::string value_of(std::size_t key) {
    Actions actions;
    const std::string name = name_of(key);
    sockets_.store.apply(ConnectionId{1ULL << 50}, c10d::Get{.key = name}, actions);
    return std::string(std::get<c10d::Value>(std::get<Answer>(actions.at(0)).reply).value);
  }

  std::mt19937 random_;
  int now_ = 0;
  std::uint64_t moment_ = 0;
  int clients_ = 0;
  StringSockets sockets_;
  std::array<Node, 3> nodes_;
  std::vector<int> left_;
  std::array<std::vector<StoreOperation>, 2> history_;  // by key
  std::size_t answered_ = 0;
};

}  // namespace

TEST_CASE("a store behind links that break is one store to all workers") {
  std::size_t answered = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    Played played(seed);
    played.play(2000);
    answered += played.answered();
  }
  CHECK(answered > 10'000);
}

}  // namespace local_store_history_test
