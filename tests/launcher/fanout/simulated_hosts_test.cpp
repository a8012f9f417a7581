// SPDX-License-Identifier: BSD-3-Clause
// A thousand hosts in one process: the console's machine on top of a tree of branches, with dead
// hosts and slow ones. Nothing here waits; time goes to the next deadline or delivery.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "launcher/fanout/fan_out.h"

namespace simulated_hosts_test {

using namespace cpprun;
using namespace cpprun::fanout;

namespace {

constexpr Duration way = std::chrono::milliseconds(1);

class SimulatedHosts {
 public:
  struct Faults {
    std::set<int> dead;    // refuse
    std::set<int> silent;  // never answer
    std::set<int> slow;    // take ten seconds to answer
  };

  SimulatedHosts(Wanted wanted, Faults faults)
      : faults_(std::move(faults)), console_(std::move(wanted)) {
    nodes_[root].node = std::make_unique<FanOutNode>(JobTerms{});
    perform(console_.start());
  }

  // Until there is nothing more to happen before `until`.
  void run(const std::function<bool()>& enough) {
    for (int steps = 0; !enough(); ++steps) {
      REQUIRE(steps < 2'000'000);
      auto next = console_.next_deadline();
      int due = -2;
      for (const auto& [number, node] : nodes_) {
        const auto at = node.node->next_deadline();
        if (at && (!next || *at < *next)) next = at, due = number;
      }
      if (!queue_.empty() && (!next || queue_.begin()->first <= *next)) {
        auto [at, deed] = std::move(*queue_.begin());
        queue_.erase(queue_.begin());
        now_ = std::max(now_, at);
        deed();
      } else {
        REQUIRE(next);
        now_ = std::max(now_, *next);
        if (due == -2)
          perform(console_.advance(now_));
        else
          obey(due, nodes_.at(due).node->advance(now_));
      }
    }
  }

  void tell(const FanOut::Event& event) { perform(console_.handle(now_, event)); }

  std::string said;
  std::optional<int> code;
  std::set<int> agents;  // that run now
  std::size_t begun = 0;
  std::size_t most_shells = 0;
  TimePoint now_{};

 private:
  static constexpr int root = -1;
  struct Node {
    std::unique_ptr<FanOutNode> node;
    int parent = root;
    int shell = 0;                  // by which its parent knows it
    std::map<int, int> heads = {};  // shell → host
  };

  void later(Duration after, std::function<void()> deed) {
    queue_.emplace(now_ + after, std::move(deed));
  }
  void feed(int at, const FanOutNode::Event& event) {
    const auto node = nodes_.find(at);
    if (node == nodes_.end()) return;
    obey(at, node->second.node->handle(now_, event));
    const auto broken = node->second.node->check();
    REQUIRE_MESSAGE(!broken, broken.value_or(""));
  }
  void up(int from, const Up& message) {
    const Node& node = nodes_.at(from);
    const int parent = node.parent;
    const int shell = node.shell;
    later(way, [this, parent, shell, message] { feed(parent, Said{shell, message}); });
  }
  void obey(int at, const FanOutNode::Actions& actions) {
    for (const auto& action : actions) {
      if (const auto* start = std::get_if<Start>(&action)) open(at, *start);
      if (const auto* give = std::get_if<SendTo>(&action)) send(at, *give);
      if (const auto* kill = std::get_if<Kill>(&action)) {
        const int shell = kill->shell;
        later(way, [this, at, shell] { feed(at, ShellEnded{shell, "killed"}); });
      }
      if (const auto* pass = std::get_if<Forward>(&action)) {
        if (at == root)
          perform(console_.handle(now_, pass->message));
        else
          up(at, pass->message);
      }
    }
  }
  void open(int at, const Start& start) {
    const int host = start.members.front().number;
    const int shell = start.shell;
    nodes_.at(at).heads[shell] = host;
    open_.insert(std::pair(at, shell));
    most_shells = std::max(most_shells, shells_of(at));
    if (faults_.silent.contains(host)) return;
    if (faults_.dead.contains(host)) {
      return later(way, [this, at, shell] {
        open_.erase(std::pair(at, shell));
        feed(at, ShellEnded{shell, "Connection refused"});
      });
    }
    const Duration after = faults_.slow.contains(host) ? Duration(std::chrono::seconds(10)) : way;
    later(after, [this, at, shell] { feed(at, Ready{shell}); });
  }
  std::size_t shells_of(int at) const {
    return static_cast<std::size_t>(std::count_if(
        open_.begin(), open_.end(), [&](const auto& each) { return each.first == at; }));
  }
  void send(int at, const SendTo& give) {
    const int host = nodes_.at(at).heads.at(give.shell);
    later(way, [this, at, host, give] { arrive(at, host, give); });
  }
  void arrive(int at, int host, const SendTo& give) {
    if (const auto* terms = std::get_if<Terms>(&give.message)) {
      nodes_[host] = Node{std::make_unique<FanOutNode>(terms->job), at, give.shell};
      up(host, Here{host, "10.0.0.1", 4000});
      const auto& all = terms->members;
      if (all.size() > 1) feed(host, Dial{{all.begin() + 1, all.end()}});
      return;
    }
    if (std::holds_alternative<Ping>(give.message)) return up(host, Pong{});
    if (std::holds_alternative<Begin>(give.message)) begun += agents.insert(host).second ? 1 : 0;
    if (std::holds_alternative<Stop>(give.message)) {
      agents.erase(host);
      up(host, Ended{host, 143, true});
    }
    feed(host, Tell{give.message});
  }
  void perform(const FanOut::Actions& actions) {
    for (const auto& action : actions) {
      if (const auto* dial = std::get_if<DialHosts>(&action)) feed(root, Dial{dial->members});
      if (const auto* told = std::get_if<TellHosts>(&action)) feed(root, Tell{told->message});
      if (const auto* say = std::get_if<Say>(&action)) said += say->sentence + "\n";
      if (const auto* finish = std::get_if<Finish>(&action)) code = finish->code;
    }
  }

  Faults faults_;
  FanOut console_;
  std::map<int, Node> nodes_;
  std::set<std::pair<int, int>> open_;
  std::multimap<TimePoint, std::function<void()>> queue_;
};

Wanted thousand(int at_least, bool elastic) {
  Wanted terms{.nodes_min = at_least, .elastic = elastic, .grace = std::chrono::seconds(30)};
  for (int number = 0; number < 1000; ++number) {
    terms.members.push_back({number, "n" + std::to_string(number), 0});
  }
  return terms;
}

}  // namespace

TEST_CASE("a thousand hosts are there after a few ways, and no node has more than 32 shells") {
  SimulatedHosts world(thousand(1000, false), {});
  world.run([&] { return world.begun == 1000; });
  CHECK(world.now_ - TimePoint{} < std::chrono::milliseconds(20));
  CHECK(world.most_shells <= shells_max);
  world.tell(Interrupted{SIGTERM});
  world.run([&] { return world.code.has_value(); });
  CHECK(world.agents.empty());
  CHECK(world.code == 143);
}

TEST_CASE("among a thousand hosts every dead and silent one is named, and nothing is started") {
  SimulatedHosts::Faults faults;
  for (int number = 0; number < 1000; number += 31) faults.dead.insert(number);  // heads among them
  for (int number = 5; number < 1000; number += 97) faults.silent.insert(number);
  for (int number = 1; number < 1000; number += 50) faults.slow.insert(number);
  for (const int each : faults.dead) faults.silent.erase(each);
  SimulatedHosts world(thousand(1000, false), faults);
  world.run([&] { return world.code.has_value(); });
  CHECK(world.code == 1);
  CHECK(world.begun == 0);
  CHECK(world.agents.empty());
  const auto gone = faults.dead.size() + faults.silent.size();
  CHECK(world.said.starts_with(std::to_string(gone) + " of 1000 hosts cannot be reached:\n"));
  for (const int each : faults.dead) {
    CHECK(world.said.find("\n  n" + std::to_string(each) + ": Connection refused\n") !=
          std::string::npos);
  }
  for (const int each : faults.silent) {
    CHECK(world.said.find("\n  n" + std::to_string(each) + ": no response for ") !=
          std::string::npos);
  }
}

TEST_CASE("an elastic job of a thousand begins without the dead, and nobody is left at its end") {
  SimulatedHosts::Faults faults;
  for (int number = 3; number < 1000; number += 10) faults.dead.insert(number);
  SimulatedHosts world(thousand(500, true), faults);
  world.run([&] { return world.begun == 900; });
  world.tell(Interrupted{SIGINT});
  world.run([&] { return world.code.has_value(); });
  CHECK(world.agents.empty());
}

}  // namespace simulated_hosts_test
