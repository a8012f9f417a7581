// SPDX-License-Identifier: BSD-3-Clause
// 98,304 ranks on 12,288 nodes meet in one store through their agents: each connects, adds itself
// and waits in a barrier for all. The real streams and sessions of both sides, in one process,
// without sockets, a network, or encryption: the rest is their own cost.
//
//   node_stores_bench [NODES [RANKS_OF_A_NODE]]
//
// Prints the processor time of the coordinator's side and of all agents together, and how many
// frames and bytes passed.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/state_machine.h"
#include "rendezvous/store/store_sessions.h"
#include "rendezvous/store/store_streams.h"

namespace {

using namespace cpprun;
using Clock = std::chrono::steady_clock;

constexpr RoundNumber first_round{1};
constexpr std::size_t pieces_max = 64;

struct Node {
  StoreStreams agent{first_round};
  StoreStreams coordinator{first_round};
  std::vector<ConnectionId> clients;  // by stream, from 1 on
};

struct Passed {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
};

// Of one side, while it works.
class Stopwatch {
 public:
  template <class Work>
  void measure(Work work) {
    const auto begin = Clock::now();
    work();
    total_ += Clock::now() - begin;
  }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }

 private:
  Clock::duration total_{};
};

class Crowd {
 public:
  Crowd(int nodes, int ranks)
      : ranks_(ranks),
        nodes_(static_cast<std::size_t>(nodes)),
        accounting_(std::make_shared<MemoryAccounting>()),
        sessions_({}, accounting_) {
    sessions_.open_port(0, [this]() -> Store& { return store_; });
  }

  void meet() {
    const int world = static_cast<int>(nodes_.size()) * ranks_;
    std::string asked;
    c10d::encode(c10d::Validate{}, c10d::Dialect::d, asked);
    c10d::encode(c10d::Add{.key = "here", .delta = 1}, c10d::Dialect::d, asked);
    c10d::encode(c10d::Barrier{.key = "all", .world_size = world}, c10d::Dialect::d, asked);
    agents_.measure([&] {
      for (Node& node : nodes_) {
        for (int rank = 0; rank < ranks_; ++rank) node.agent.say(node.agent.open(), asked);
      }
    });
    for (Node& node : nodes_) pass(agents_, node.agent, coordinators_, node.coordinator);
    coordinators_.measure([this] { serve(); });
    for (Node& node : nodes_) pass(coordinators_, node.coordinator, agents_, node.agent);
    agents_.measure([this] {
      for (Node& node : nodes_) hear_answers(node);
    });
    if (met_ != world) {
      fmt::print(stderr, "{} of {} ranks have met\n", met_, world);
      std::exit(1);
    }
  }

  void print() const {
    const auto world = nodes_.size() * static_cast<std::size_t>(ranks_);
    fmt::print("| ranks | nodes | coordinator | all agents | an agent | frames | bytes |\n");
    fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
    fmt::print("| {} | {} | {:.2f} s | {:.2f} s | {:.0f} us | {} | {} |\n", world, nodes_.size(),
               coordinators_.seconds(), agents_.seconds(),
               agents_.seconds() * 1e6 / static_cast<double>(nodes_.size()), passed_.frames,
               passed_.bytes);
  }

 private:
  void pass(Stopwatch& from_time, StoreStreams& from, Stopwatch& to_time, StoreStreams& to) {
    while (from.has_frame()) {
      std::string frame;
      from_time.measure([&] { frame = from.next_frame(); });
      ++passed_.frames;
      passed_.bytes += frame.size();
      to_time.measure([&] {
        link::StreamFrameReader records(std::string_view(frame).substr(4));
        if (!records.round() || !to.hear(records)) std::abort();
      });
    }
  }

  // What ConnectionSet and NodeStreams do in each turn.
  void serve() {
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      while (const auto change = nodes_[at].coordinator.next_change()) {
        if (change->is_new) begin(at, change->stream);
        signaled_.emplace_back(at, change->stream);
      }
    }
    TimePoint now{};
    while (!signaled_.empty() || sessions_.has_more()) {
      sessions_.begin_turn(now);
      if (sessions_.go_on_with_stores() || sessions_.go_on_with_long()) {
        while (sessions_.send_next()) perform();
        perform();
        continue;
      }
      while (sessions_.decide_next()) perform();
      while (!signaled_.empty() && sessions_.work_left() > 0 && !sessions_.is_busy()) {
        const auto [at, stream] = signaled_.back();
        signaled_.pop_back();
        read(nodes_[at], stream);
      }
      while (sessions_.send_next()) perform();
      while (sessions_.advance_next()) perform();
    }
  }

  void begin(std::size_t at, StreamId stream) {
    const int socket = static_cast<int>(clients_.size());
    PeerAddress peer;
    const auto number = static_cast<std::uint32_t>(at);
    std::memcpy(peer.ip.data(), &number, sizeof number);
    clients_.emplace_back(at, stream);
    nodes_[at].clients.resize(stream.value + 1);
    nodes_[at].clients[stream.value] = sessions_.open(socket, peer, 0, c10d::Dialect::undecided);
  }

  void read(Node& node, StreamId stream) {
    const std::span<char> room = sessions_.room(node.clients[stream.value]);
    const std::string_view bytes = node.coordinator.heard(stream).substr(0, room.size());
    if (bytes.empty()) return;
    std::memcpy(room.data(), bytes.data(), bytes.size());
    node.coordinator.take(stream, bytes.size());
    sessions_.received(node.clients[stream.value], bytes.size());
    perform();
  }

  void perform() {
    while (auto action = sessions_.next_action()) {
      std::visit(Overloaded{[this](const session::Write& write) { on(write); },
                            [this](const session::Admit& admit) { sessions_.admit(admit.id); },
                            [](const session::Close& close) {
                              fmt::print(stderr, "closed: {}\n", close.reason);
                              std::exit(1);
                            },
                            [](const auto&) {}},
                 *action);
    }
  }

  void on(const session::Write& write) {
    std::array<std::string_view, pieces_max> room;
    const auto [at, stream] = clients_[static_cast<std::size_t>(write.socket)];
    std::size_t count = 0;
    for (const std::string_view piece : sessions_.pieces(write.to, room)) {
      nodes_[at].coordinator.say(stream, piece);
      count += piece.size();
    }
    sessions_.sent(write, count);
  }

  void hear_answers(Node& node) {
    constexpr std::size_t answers_bytes = 8 + 1;  // of ADD, and of BARRIER
    while (const auto change = node.agent.next_change()) {
      const std::size_t count = node.agent.heard(change->stream).size();
      if (count == answers_bytes) ++met_;
      node.agent.take(change->stream, count);
    }
  }

  int ranks_;
  std::vector<Node> nodes_;
  std::shared_ptr<MemoryAccounting> accounting_;
  Store store_;
  StoreSessions sessions_;
  std::vector<std::pair<std::size_t, StreamId>> clients_;  // by socket
  std::vector<std::pair<std::size_t, StreamId>> signaled_;
  Stopwatch agents_;
  Stopwatch coordinators_;
  Passed passed_;
  int met_ = 0;
};

}  // namespace

int main(int count, char** words) {
  const int nodes = count > 1 ? std::atoi(words[1]) : 12'288;
  const int ranks = count > 2 ? std::atoi(words[2]) : 8;
  Crowd crowd(nodes, ranks);
  crowd.meet();
  crowd.print();
}
