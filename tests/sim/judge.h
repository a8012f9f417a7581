// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Sees what truly happens in a simulated world, which no coordinator and no agent ever does, and
// says which of the promises was broken first. docs/simulator.md lists them.
//
// A worker is fenced when it can do no harm any more: its round is not the one that is sealed, its
// node has no seat in that one, and the store does not admit it.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/agent.h"
#include "proto/link/message.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/operator_command.h"
#include "tests/sim/scenario.h"
#include "tests/sim/timeline.h"

namespace cpprun::sim {

// Pids of workers begin here, those of agents are smaller.
inline constexpr int worker_pids_from = 1'000'000;

// A master that begins anew counts its rounds from 1, and so does a job that was forgotten: which
// round is meant is told by its store as well.
struct RoundId {
  RoundNumber number{};
  int store_port = 0;
  friend bool operator==(const RoundId&, const RoundId&) = default;
};

inline RoundId round_of(const link::Sealed& sealed) {
  return {sealed.round, sealed.store_port};
}

enum class CauseOfDeath { done, injected, neighbour, asked, orphaned };

struct WorkerEnd {
  int node = 0;
  Rank rank;
  RoundId round;
  link::ExitStatus status;
  CauseOfDeath cause{};
  bool members_left = false;
};

class Judge {
 public:
  // What it may ask the world.
  struct Witness {
    std::function<bool(int node)> anybody;                // of the workers, leader or not
    std::function<bool(int node)> anybody_but_stuck;      // without those that sit in the kernel
    std::function<bool(int node)> computing;              // a leader that could do harm
    std::function<bool(int node)> stopped;                // the agent, by SIGSTOP
    std::function<bool()> hosted = [] { return false; };  // a coordinator is there, and runs
  };

  Judge(const Scenario& scenario, Timeline& time);
  void call(Witness witness) { witness_ = std::move(witness); }

  void must(bool holds, const std::string& sentence);
  // The first promise that was broken.
  const std::optional<std::string>& verdict() const { return verdict_; }

  // --- what the workers do ---
  void worker_started(int node, RoundId round, Rank rank);
  void worker_cannot_start(int node, RoundId round, Rank rank);
  void worker_ended(const WorkerEnd& end);

  // --- what is said ---
  using Seats = std::vector<std::pair<int, link::Sealed>>;  // by node
  // With what another has left of some jobs, or of none.
  void coordinator_begins(const std::function<bool(int job)>& knows, bool knows_commands = false);
  // The standby of that job. What an operator has asked the one before may be lost with it.
  // Of several cpprunds the next has to know of orders of which it was heard that they were done.
  void another_leads(int job, bool knows_commands);
  int takeovers() const { return takeovers_; }
  // The coordinator's process is about to end, and nothing else goes wrong: its standby and all
  // others know what to do, and are enough for another round. Who has done its part has no vote.
  void expect_takeover() { must_go_on_ = jobs_.front().ended_well == 0; }
  // One of several cpprunds is about to be lost, and nothing else goes wrong: the one that leads
  // then has everything, and no round is broken.
  void expect_turn() { must_turn_ = true; }
  // A daemon forgets a job; who comes for it later begins a new one.
  void coordinator_forgets(int job);
  void coordinator_seals(int job, const Seats& seats);
  void seat_is_told(int node, const link::Sealed& sealed);
  void coordinator_finishes(int job, const link::Finish& finish);
  void coordinator_heard(int node);
  void coordinator_hears_join(int node);
  // `has_another`: a link of that node which the coordinator does not know to be closed.
  void coordinator_refuses(int node, const std::string& why, bool has_another);
  void coordinator_hears_success(int node, RoundNumber round);
  void coordinator_breaks(int job, const link::Drain& drain);
  // It was silent for too long. `arrived`: when the last of its words came to the coordinator's
  // machine.
  void coordinator_gives_up(int node, TimePoint arrived);
  // In the words in which two runs are compared.
  void node_is_told(int node, const link::Message& message);
  const std::string& story() const { return story_; }
  bool is_seated(int job, int node) const { return jobs_[index(job)].seated[index(node)]; }
  void link_opened(int node) { ++nodes_[index(node)].links; }
  // By the side that is sent to: 0 the agent, 1 the coordinator.
  void counted(int node, int to, const link::Message& message, std::size_t bytes);

  // --- what the agents do ---
  void agent_begins(int node);
  void agent_drains(int node);
  void agent_drained(int node);
  void agent_went_on(int node);
  // It dials, or asks for a seat: if nobody of its round is left, it has come back as a newcomer,
  // who has nothing to drain.
  // --- what an operator asks (judge_of_orders.cpp) ---
  // The coordinator has decided so, and nothing of it is performed yet: what it allows.
  void command_is_decided(const OperatorCommand& command);
  // It was decided at that moment, when the coordinator knew those jobs, and all that was decided
  // before and with it is said: what it forbids. Answered: whoever has asked hears it.
  void command_is_done(const OperatorCommand& command, const CommandResult& outcome, TimePoint at,
                       const std::set<int>& known_jobs, bool is_answered);
  void coordinator_dismisses(int node);
  // A worker of that round was sent the signal to save.
  void coordinator_notes(const coordinator::NodeChange& change);
  void worker_saves(int node, RoundId round, Rank rank);

  void agent_asks(int node);
  void agent_exits(int node, const agent::Exit& exit);
  // It will say nothing any more: it was killed, or its machine died.
  void agent_is_gone(int node) { nodes_[index(node)].gone = true; }

  // --- the end ---
  void all_is_over();
  std::optional<int> exit_code_of(int node) const;
  int restarts_of(int job) const { return jobs_[index(job)].restarts; }
  // Which node has that rank in that round, while it is the sealed one.
  std::optional<int> holder_of(int job, RoundId round, Rank rank) const;
  bool is_sealed(int job, RoundNumber round) const {
    return jobs_[index(job)].round.number == round;
  }
  int rounds_of(int job) const { return jobs_[index(job)].rounds; }
  // The sealed one; of none the number is 0.
  RoundId sealed_round(int job) const { return jobs_[index(job)].round; }

 private:
  struct Death {
    TimePoint at;
    Rank rank;
    int node = 0;
    link::ExitStatus status;
  };
  struct JobRecord {
    RoundId round{};
    // By node, as they were decided: one that has come back beside its old self has two.
    std::multimap<int, link::Sealed> seats = {};
    std::vector<bool> seated;  // by node
    std::vector<int> alive;    // by rank, of the sealed round
    std::vector<int> holder;   // the node of each rank of it
    int world = 0;
    int ended_well = 0;
    int restarts = 0;
    int rounds = 0;
    bool is_broken = false;         // its members were told to drain
    bool somebody_is_done = false;  // all workers of a node have, in the sealed round
    std::vector<Death> deaths;      // in the sealed round, that nobody asked for
    std::optional<link::Finish> finish;
    bool forgotten = false;  // a new job may have its name; how it ended is still known
    std::optional<TimePoint> forgotten_at = {};  // for the first time
    bool has_ended_with_0 = false;               // it, or an earlier one of its name
    std::set<int> earlier_codes = {};            // with which earlier ones of its name ended
    bool was_stopped = false;                    // by an order
    bool may_be_stopped = false;                 // by one of which it is not known
    bool stop_is_kept = false;                   // and whoever leads on has to know of it
    std::vector<TimePoint> saves_at;             // in the sealed round: moments asked for
    std::vector<int> saved;                      // by rank: how often it was told
  };
  struct NodeRecord {
    TimePoint heard{};
    bool was_silent = false;            // for the lease, at some time in this round
    bool had_a_seat = false;            // in any round
    std::optional<TimePoint> asked_at;  // for a seat, for the first time that was heard
    int links = 0;                      // opened in this round
    std::size_t bytes[2] = {0, 0};
    int fence = 0;                   // number of the last fence
    std::optional<TimePoint> began;  // this cpprun of the node has
    TimePoint went_on{};
    std::optional<TimePoint> drains_since;
    std::optional<agent::Exit> exit;
    bool gone = false;
    bool may_be_dismissed = false;  // an order was about it
    int bad_ends = 0;               // of its workers, and when it was lost: for its whole life
    bool has_joined = false;        // this cpprun of the node has
    bool must_leave = false;        // so it was asked to leave: that cpprun gets no other seat
    bool leave_is_kept = false;     // and whoever leads on has to know of it
    RoundId drained_in{};           // the round in which it was asked to, if nothing had broken it
    bool was_dismissed = false;     // it was told so
    TimePoint excluded_until{};
    bool exclusion_is_kept = false;  // whoever leads next knows it
    bool was_fenced = false;         // it ended its workers, and nobody had broken their round
  };

  static std::optional<int> restarts_max(const RestartRules& rules);
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  JobRecord& job_of(int node) { return jobs_[index(scenario_.job_of(node))]; }
  bool is_a_lease(Duration silence) const;
  bool met_nobody(int node);
  bool may_wait_in_vain() const;
  void check_timeout(int node);
  void begin_anew(JobRecord& job);
  void check_ranks(const Seats& seats);
  void check_the_old_round(int job, const Seats& seats);
  void check_root(const JobRecord& job, const link::Finish& finish);
  void check_stopped(const JobRecord& job, const link::Finish& finish);
  void check_seats_of_commands(const JobRecord& job, const Seats& seats);
  void forget_commands(int job, bool all, bool knows_commands);
  bool somebody_left_its_seat(int job) const;
  void check_rounds();
  void check_drain_time(int node);
  void audit_drain(int node, TimePoint since);
  Duration draining_takes_max() const;
  void fence(int node);
  void audit(int node, int fence);
  Duration death_takes_max() const;
  bool has(std::initializer_list<FaultKind> kinds) const;
  bool has_only(std::initializer_list<FaultKind> kinds) const;
  bool links_return_in_time() const;
  bool is_one_short_restart() const;

  const Scenario& scenario_;
  Timeline& time_;
  Witness witness_;
  std::vector<JobRecord> jobs_;
  std::vector<NodeRecord> nodes_;
  bool tells_story_ = false;  // there are strangers, whose lies must not be seen in it
  // When the first job that a node hosts was over. Whoever comes then meets its host, or begins
  // another job, and which of them may be a stranger's doing: it keeps a host until its farewell.
  std::optional<TimePoint> story_ends_;
  int takeovers_ = 0;
  bool must_go_on_ = false;
  bool must_turn_ = false;
  std::string story_;
  std::optional<std::string> verdict_;
};

}  // namespace cpprun::sim
