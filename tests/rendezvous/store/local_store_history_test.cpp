// SPDX-License-Identifier: BSD-3-Clause
// What workers of several nodes see of one store through links that break: the real sessions behind
// real streams, judged by their history. Each key must look as if it had been in one place all the
// time: linearizable, as M. Herlihy and J. Wing call it (1990). For a counter that only grows that
// is decided without a search: what an operation is told must not be less than what was told to
// anybody before it began, and nobody is told the same sum twice.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "proto/c10d/encoder.h"
#include "rendezvous/store/store_streams.h"
#include "tests/rendezvous/store/string_sockets.h"

using namespace cpprun;

namespace {

// An ADD of 1, or of 0, which only looks.
struct Operation {
  int key = 0;
  int delta = 0;
  int began = 0;
  int ended = -1;  // -1: it was never answered
  std::int64_t told = 0;
};
using History = std::vector<Operation>;

// Why nobody can have kept that counter in one place; empty: somebody can.
std::string broken_promise(const History& history, int key, std::int64_t sum_at_end) {
  std::map<std::int64_t, int> added;  // who was told that sum
  std::int64_t unanswered = 0;
  std::vector<const Operation*> answered;
  for (const Operation& each : history) {
    if (each.key != key) continue;
    if (each.ended < 0) {
      unanswered += each.delta;
      continue;
    }
    answered.push_back(&each);
    if (each.delta == 1 && ++added[each.told] > 1) return "two were told the same sum";
  }
  const auto count = static_cast<std::int64_t>(added.size());
  if (sum_at_end < count) return "an addition was lost";
  if (sum_at_end > count + unanswered) return "an addition was carried out twice";
  std::ranges::sort(answered, {}, &Operation::began);
  std::vector<const Operation*> by_end = answered;
  std::ranges::sort(by_end, {}, &Operation::ended);
  std::int64_t told_before = 0;
  std::size_t ended = 0;
  for (const Operation* each : answered) {
    for (; ended < by_end.size() && by_end[ended]->ended < each->began; ++ended) {
      told_before = std::max(told_before, by_end[ended]->told);
    }
    if (each->told < told_before + each->delta) return "somebody was told what was over";
    if (each->told > sum_at_end) return "somebody was told what never was";
  }
  return {};
}

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
    // What is under way arrives.
    for (int turn = 0; turn < 200; ++turn, ++now_) {
      for (Node& node : nodes_) exchange(node, true);
      work();
    }
    for (int key = 0; key < keys; ++key) {
      CHECK(broken_promise(history_, key, sum_of(key)) == "");
    }
  }

  std::size_t answered() const { return answered_; }

 private:
  static constexpr int keys = 2;

  struct Worker {
    StreamId stream;
    std::optional<std::size_t> asked;  // its operation in history_
    std::string heard;
  };
  struct Node {
    StoreStreams agent{RoundNumber{1}, 64};
    StoreStreams coordinator{RoundNumber{1}, 64};
    std::deque<std::string> up;
    std::deque<std::string> down;
    std::array<Worker, 3> workers;
    std::map<StreamId, int> clients;  // of sockets_
  };

  std::size_t roll(std::size_t sides) { return random_() % sides; }

  static std::string bytes_of(const c10d::Request& request) {
    std::string bytes;
    c10d::encode(request, c10d::Dialect::d, bytes);
    return bytes;
  }

  void connect(Node& node, Worker& worker) {
    worker = {};
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

  void ask(Node& node, Worker& worker) {
    Operation operation{.key = static_cast<int>(roll(keys)), .delta = static_cast<int>(roll(2))};
    operation.began = now_;
    const std::string key = "k" + std::to_string(operation.key);
    const std::string bytes = bytes_of(c10d::Add{.key = key, .delta = operation.delta});
    if (node.agent.room(worker.stream) < bytes.size()) return;
    node.agent.say(worker.stream, bytes);
    worker.asked = history_.size();
    history_.push_back(operation);
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

  // The store carries out what has come, and its answers set out.
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
        Operation& operation = history_[*std::exchange(worker.asked, std::nullopt)];
        std::memcpy(&operation.told, worker.heard.data(), sizeof operation.told);
        operation.ended = now_;
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

  std::int64_t sum_of(int key) {
    Actions actions;
    const std::string name = "k" + std::to_string(key);
    sockets_.store.apply(ConnectionId{1ULL << 50}, c10d::Add{.key = name, .delta = 0}, actions);
    return std::get<c10d::Number>(std::get<Answer>(actions.at(0)).reply).number;
  }

  std::mt19937 random_;
  int now_ = 0;
  StringSockets sockets_;
  std::array<Node, 3> nodes_;
  std::vector<int> left_;
  History history_;
  std::size_t answered_ = 0;
};

}  // namespace

TEST_CASE("the judge of a history finds what is wrong with it") {
  const History good = {{.delta = 1, .began = 1, .ended = 4, .told = 2},
                        {.delta = 1, .began = 2, .ended = 3, .told = 1},
                        {.delta = 0, .began = 5, .ended = 6, .told = 2},
                        {.delta = 1, .began = 5}};
  CHECK(broken_promise(good, 0, 2) == "");
  CHECK(broken_promise(good, 0, 3) == "");
  CHECK(broken_promise(good, 0, 4) == "an addition was carried out twice");
  CHECK(broken_promise(good, 0, 1) == "an addition was lost");
  History twice = good;
  twice[1].told = 2;
  CHECK(broken_promise(twice, 0, 2) == "two were told the same sum");
  History late = good;
  late[2].told = 1;
  CHECK(broken_promise(late, 0, 2) == "somebody was told what was over");
  late[2].told = 9;
  CHECK(broken_promise(late, 0, 2) == "somebody was told what never was");
  History overtaken = good;
  overtaken[1] = {.delta = 1, .began = 5, .ended = 6, .told = 1};
  CHECK(broken_promise(overtaken, 0, 2) == "somebody was told what was over");
}

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
