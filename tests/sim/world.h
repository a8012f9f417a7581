#pragma once
// A whole cluster in one test: the real Keeper and the real Agents, with a network, processes and a
// clock that exist only here. Everything that happens is an entry in one queue, ordered by
// simulated time; the same seed gives the same run. After every step the invariants are checked,
// and a run that has not ended by its bound has failed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "launcher/agent.h"
#include "rendezvous/keeper.h"

namespace cpprun::sim {

// How often things go wrong, as chances between 0 and 1.
struct Weather {
  double worker_fails = 0.1;     // of each worker in each attempt
  double worker_hangs = 0.1;     // ignores TERM
  double spawn_fails = 0.01;     // of each start
  double link_breaks = 0.1;      // of each agent, once, and comes back
  double agent_dies = 0.0;       // SIGKILL of a cpprun that does not host the keeper
  double node_is_stopped = 0.0;  // a signal to one cpprun
  Duration worker_life_max = std::chrono::seconds(100);
  Duration delay_max = std::chrono::milliseconds(20);  // of a message
};

struct Scenario {
  int nodes = 2;      // seats at most
  int nodes_min = 0;  // 0: as many as seats; fewer: an elastic job, whose nodes have no rank given
  int surplus = 0;    // nodes beyond the seats
  Duration arrival_max = std::chrono::seconds(2);  // nodes start within this time
  int workers_per_node = 2;
  int restarts_max = 2;
  Duration grace = std::chrono::seconds(10);
  Duration time_max = std::chrono::hours(2);
  Weather weather;
};

class World {
 public:
  World(Scenario scenario, std::uint64_t seed);
  ~World();

  // Runs to the end; the first broken invariant as a sentence, or nothing.
  std::optional<std::string> run();

  std::optional<int> exit_code_of(int node) const;
  int restarts_seen() const { return restarts_seen_; }
  bool agent_was_killed() const { return agent_was_killed_; }
  std::size_t steps() const { return steps_; }

 private:
  struct Node;
  struct Process;
  struct Entry {
    TimePoint at;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  void later(Duration delay, std::function<void()> what);
  bool chance(double probability);
  Duration up_to(Duration most);

  void tell_keeper(const Keeper::Event& event);
  void perform_keeper(const Keeper::Actions& actions);
  void arm_keeper();
  void tell(Node& node, const Agent::Event& event);
  void perform(Node& node, const Agent::Actions& actions);
  void arm(Node& node);
  void end_master();
  void dial(Node& node);
  void break_link(Node& node, bool keeper_notices);
  void work(Node& node, const supervisor::Action& action);
  void spawn(Node& node, const WorkerSpec& spec);
  void end_process(Node& node, int local_rank, link::ExitStatus status);
  void kill_agent(Node& node);
  void plan_weather(Node& node);
  void must(bool holds, const std::string& sentence);

  Scenario scenario_;
  std::mt19937_64 random_;
  TimePoint now_{};
  std::uint64_t order_ = 0;
  std::priority_queue<Entry> entries_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::optional<Keeper> keeper_;
  std::uint64_t keeper_timer_ = 0;  // a timer entry of an older number is void
  std::map<LinkId, Node*> links_;
  std::uint64_t last_link_ = 0;
  std::map<int, int> alive_by_rank_;   // rank → how many processes have it right now
  std::optional<std::string> broken_;  // the first invariant that did not hold
  int restarts_seen_ = 0;
  bool agent_was_killed_ = false;
  bool master_is_gone_ = false;
  std::size_t steps_ = 0;
};

}  // namespace cpprun::sim
