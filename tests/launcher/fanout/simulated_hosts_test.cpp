// SPDX-License-Identifier: BSD-3-Clause
// A thousand hosts in one process: the console's two machines, with dead hosts and slow ones.
// Nothing here waits; time goes to the next deadline or delivery.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
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
    perform(console_.start());
  }

  // Until nothing more happens before `until`.
  void run(const std::function<bool()>& enough) {
    for (int steps = 0; !enough(); ++steps) {
      REQUIRE(steps < 2'000'000);
      const auto console = console_.next_deadline();
      const auto shells = shells_.next_deadline();
      const auto next = console && shells ? std::min(console, shells) : console ? console : shells;
      if (!queue_.empty() && (!next || queue_.begin()->first <= *next)) {
        auto [at, deed] = std::move(*queue_.begin());
        queue_.erase(queue_.begin());
        now_ = std::max(now_, at);
        deed();
      } else {
        REQUIRE(next);
        now_ = std::max(now_, *next);
        if (next == console)
          perform(console_.advance(now_));
        else
          obey(shells_.advance(now_));
      }
    }
  }

  void tell(const FanOut::Event& event) { perform(console_.handle(now_, event)); }

  std::string said;
  std::optional<int> code;
  std::set<int> agents;  // that are running
  std::size_t begun = 0;
  std::size_t most_dialed = 0;  // at a time
  TimePoint now_{};

 private:
  void later(Duration after, std::function<void()> deed) {
    queue_.emplace(now_ + after, std::move(deed));
  }
  void feed(const HostShells::Event& event) {
    obey(shells_.handle(now_, event));
    const auto broken = shells_.check();
    REQUIRE_MESSAGE(!broken, broken.value_or(""));
  }
  void up(int host, Up message) {
    later(way, [this, said = Said{host, std::move(message)}] {
      if (!std::holds_alternative<Pong>(said.message)) dialed_.erase(said.host);
      feed(said);
    });
  }
  void end(int host, const std::string& why) {
    later(way, [this, host, why] {
      dialed_.erase(host);
      feed(ShellEnded{host, why});
    });
  }
  void obey(const HostShells::Actions& actions) {
    for (const auto& action : actions) {
      if (const auto* start = std::get_if<Start>(&action)) open(start->host.number);
      if (const auto* give = std::get_if<SendTo>(&action)) {
        later(way, [this, give = *give] { arrive(give.host, give.message); });
      }
      if (const auto* kill = std::get_if<Kill>(&action)) end(kill->host, "killed");
      if (const auto* pass = std::get_if<Said>(&action)) perform(console_.handle(now_, *pass));
    }
  }
  void open(int host) {
    dialed_.insert(host);
    most_dialed = std::max(most_dialed, dialed_.size());
    if (faults_.silent.contains(host)) return;
    if (faults_.dead.contains(host)) return end(host, "Connection refused");
    const Duration after = faults_.slow.contains(host) ? Duration(std::chrono::seconds(10)) : way;
    later(after, [this, host] { feed(Ready{host}); });
  }
  void arrive(int host, const Down& message) {
    if (std::holds_alternative<Terms>(message)) up(host, Here{"10.0.0.1", 4000});
    if (std::holds_alternative<Ping>(message)) up(host, Pong{});
    if (std::holds_alternative<Begin>(message)) begun += agents.insert(host).second ? 1 : 0;
    if (std::holds_alternative<Stop>(message)) {
      agents.erase(host);
      up(host, Ended{143, true});
    }
  }
  void perform(const FanOut::Actions& actions) {
    for (const auto& action : actions) {
      if (const auto* dial = std::get_if<Dial>(&action)) feed(*dial);
      if (const auto* told = std::get_if<Tell>(&action)) feed(*told);
      if (const auto* say = std::get_if<Say>(&action)) said += say->sentence + "\n";
      if (const auto* finish = std::get_if<Finish>(&action)) code = finish->code;
    }
  }

  Faults faults_;
  FanOut console_;
  HostShells shells_{JobTerms{}};
  std::set<int> dialed_;  // hosts that have not responded yet
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

TEST_CASE("a thousand hosts connect within a few round trips, dialed 64 at a time") {
  SimulatedHosts world(thousand(1000, false), {});
  world.run([&] { return world.begun == 1000; });
  CHECK(world.now_ - TimePoint{} < std::chrono::milliseconds(60));
  CHECK(world.most_dialed == dials_max);
  world.tell(Interrupted{SIGTERM});
  world.run([&] { return world.code.has_value(); });
  CHECK(world.agents.empty());
  CHECK(world.code == 143);
}

TEST_CASE("of a thousand hosts all dead and silent ones are named, and nothing is started") {
  SimulatedHosts::Faults faults;
  for (int number = 0; number < 1000; number += 31) faults.dead.insert(number);
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

TEST_CASE("an elastic job of a thousand hosts begins without the dead ones, and stops all agents") {
  SimulatedHosts::Faults faults;
  for (int number = 3; number < 1000; number += 10) faults.dead.insert(number);
  SimulatedHosts world(thousand(500, true), faults);
  world.run([&] { return world.begun == 900; });
  world.tell(Interrupted{SIGINT});
  world.run([&] { return world.code.has_value(); });
  CHECK(world.agents.empty());
}

}  // namespace simulated_hosts_test
