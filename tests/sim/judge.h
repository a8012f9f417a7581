// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Knows the true state of a simulated world, which no coordinator and no agent ever does, and
// reports the first broken promise. docs/simulator.md lists them.
//
// A worker is fenced when it can do no harm: its round is not the sealed one, its node has no seat
// in that one, and the store does not admit it.

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

// The pids of workers start here, those of agents are smaller.
inline constexpr int worker_pids_from = 1'000'000;

// A master that restarts counts its rounds from 1, and so does a job that was forgotten: the store
// distinguishes the rounds.
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
  // What the judge may ask the world.
  struct Witness {
    // any process of the workers, leader or not
    std::function<bool(int node)> any_alive;
    // the same without workers that have left their round and wait for the next one
    std::function<bool(int node)> any_in_round;
    // the same without those that are stuck in the kernel
    std::function<bool(int node)> any_alive_but_stuck;
    std::function<bool(int node)> computing;              // a leader that could do harm
    std::function<bool(int node)> stopped;                // the agent, by SIGSTOP
    std::function<bool()> hosted = [] { return false; };  // there is a running coordinator
  };

  Judge(const Scenario& scenario, Timeline& time);
  void call(Witness witness) { witness_ = std::move(witness); }

  void must(bool holds, const std::string& sentence);
  // The first broken promise.
  const std::optional<std::string>& verdict() const { return verdict_; }

  // --- what the workers do ---
  void worker_started(int node, RoundId round, Rank rank);
  void worker_cannot_start(int node, RoundId round, Rank rank);
  void worker_ended(const WorkerEnd& end);
  // It does not use its rank any longer, and waits for the next round.
  void worker_left(int node, RoundId round, Rank rank);

  // --- messages ---
  using Seats = std::vector<std::pair<int, link::Sealed>>;  // by node
  // `knows`: the jobs of which the coordinator has a record.
  void coordinator_begins(const std::function<bool(int job)>& knows, bool knows_commands = false);
  // The standby of that job takes over. An operator's commands may be lost with the previous
  // leader. With several cpprunds, the next leader has to know every command whose completion was
  // reported.
  void another_leads(int job, bool knows_commands);
  int takeovers() const { return takeovers_; }
  // The coordinator's process is about to end, and there is no other fault: its standby and the
  // other nodes are enough for another round. A node that has done its part has no vote.
  void expect_takeover() { must_go_on_ = jobs_.front().ended_well == 0; }
  // One of several cpprunds is about to be lost, and there is no other fault: the next leader is in
  // sync, and no round is broken.
  void expect_turn() { must_turn_ = true; }
  // A daemon forgets a job; a node that joins later begins a new one.
  void coordinator_forgets(int job);
  void coordinator_seals(int job, const Seats& seats);
  void seat_received(int node, const link::Sealed& sealed);
  // A worker of that node is started again alone.
  void coordinator_restarts_worker(int node, const link::RestartWorker& restart);
  void coordinator_finishes(int job, const link::Finish& finish);
  void coordinator_heard(int node);
  void coordinator_hears_join(int node);
  // `has_another`: the node has a link that the coordinator does not know to be closed.
  void coordinator_refuses(int node, const std::string& why, bool has_another);
  void coordinator_hears_success(int node, RoundNumber round);
  void coordinator_breaks(int job, const link::Drain& drain);
  // The node was silent for too long. `arrived`: when its last message reached the coordinator's
  // machine.
  void coordinator_gives_up(int node, TimePoint arrived);
  // Records a message for the comparison of two runs.
  void node_receives(int node, const link::Message& message);
  const std::string& story() const { return story_; }
  bool is_seated(int job, int node) const { return jobs_[index(job)].seated[index(node)]; }
  void link_opened(int node) { ++nodes_[index(node)].links; }
  // `to`: the receiving side: 0 the agent, 1 the coordinator.
  void counted(int node, int to, const link::Message& message, std::size_t bytes);

  // --- what the agents do ---
  void agent_begins(int node);
  void agent_drains(int node);
  void agent_drained(int node);
  void agent_went_on(int node);
  // It dials or asks for a seat: if its workers are gone, it has returned as a newcomer and has
  // nothing to drain.
  // --- operator commands (judge_of_orders.cpp) ---
  // The coordinator has decided a command and not performed it yet: what the command permits.
  void command_is_decided(const OperatorCommand& command);
  // The command was decided at `at`, when the coordinator knew `known_jobs`, and everything decided
  // before and with it has been sent: what the command forbids. `is_answered`: the operator
  // receives the answer.
  void command_is_done(const OperatorCommand& command, const CommandResult& outcome, TimePoint at,
                       const std::set<int>& known_jobs, bool is_answered);
  void coordinator_dismisses(int node);
  // A worker of that round has received the signal to save.
  void coordinator_notes(const coordinator::NodeChange& change);
  void worker_saves(int node, RoundId round, Rank rank);
  // That worker is ended because its job hangs: a failure like any other.
  void worker_hung(int node, Rank rank, link::ExitStatus status);
  // The node has received the verdict that its job hangs. `is_frozen`: its workers make no
  // progress.
  void hang_found(int node, bool is_frozen);

  void agent_asks(int node);
  void agent_exits(int node, const events::JobEnded& exit);
  // It sends nothing more: it was killed, or its machine lost power.
  void agent_is_gone(int node) { nodes_[index(node)].gone = true; }

  // --- the end ---
  void all_is_over();
  std::optional<int> exit_code_of(int node) const;
  int restarts_of(int job) const { return jobs_[index(job)].restarts; }
  // The node of that rank in that round, while it is the sealed one.
  std::optional<int> holder_of(int job, RoundId round, Rank rank) const;
  bool is_sealed(int job, RoundNumber round) const {
    return jobs_[index(job)].round.number == round;
  }
  int rounds_of(int job) const { return jobs_[index(job)].rounds; }
  // The sealed round; number 0: none.
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
    // By node, as decided: a node that has returned beside its old process has two.
    std::multimap<int, link::Sealed> seats = {};
    std::vector<bool> seated;  // by node
    std::vector<int> alive;    // by rank, of the sealed round
    std::vector<int> holder;   // the node of each rank
    int world = 0;
    int ended_well = 0;
    int restarts = 0;
    int rounds = 0;
    std::map<int, int> attempts;  // by rank: restarts of single workers in the sealed round
    bool is_broken = false;       // its members have received a drain
    bool a_node_is_done = false;  // all workers of a node have finished, in the sealed round
    std::vector<Death> deaths;    // deaths in the sealed round that were not requested
    std::optional<link::Finish> finish;
    bool forgotten = false;  // a new job may have its name; its result is still known
    std::optional<TimePoint> forgotten_at = {};  // the first time
    bool has_ended_with_0 = false;               // it, or an earlier one of its name
    std::set<int> earlier_codes = {};            // exit codes of earlier jobs of its name
    bool was_stopped = false;                    // by a command
    bool may_be_stopped = false;                 // by a command with an unknown outcome
    bool stop_is_kept = false;                   // the next leader has to know of it
    std::vector<TimePoint> saves_at;             // in the sealed round: the requested times
    std::vector<int> saved;                      // by rank: number of save signals
  };
  struct NodeRecord {
    TimePoint heard{};
    bool was_silent = false;            // for a lease, at some time in this round
    bool had_a_seat = false;            // in any round
    std::optional<TimePoint> asked_at;  // first request for a seat that was received
    int links = 0;                      // opened in this round
    std::size_t bytes[2] = {0, 0};
    int fence = 0;                   // number of the last fence
    std::optional<TimePoint> began;  // this cpprun of the node has
    TimePoint went_on{};
    std::optional<TimePoint> drains_since;
    std::optional<events::JobEnded> exit;
    bool gone = false;
    bool may_be_dismissed = false;  // a command was about it
    int bad_ends = 0;               // of its workers, and losses of the node, in its whole life
    bool has_joined = false;        // this cpprun of the node has
    bool must_leave = false;        // it was asked to leave: that cpprun gets no other seat
    bool leave_is_kept = false;     // the next leader has to know of it
    RoundId drained_in{};           // the round in which it was asked to, if that was not broken
    bool was_dismissed = false;     // it has received the dismissal
    TimePoint excluded_until{};
    bool exclusion_is_kept = false;  // the next leader knows it
    bool was_fenced = false;         // it ended its workers although their round was not broken
  };

  static std::optional<int> restarts_max(const RestartRules& rules);
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }
  JobRecord& job_of(int node) { return jobs_[index(scenario_.job_of(node))]; }
  bool is_a_lease(Duration silence) const;
  bool met_no_coordinator(int node);
  bool may_wait_forever() const;
  void check_timeout(int node);
  void restart_job(JobRecord& job);
  void check_ranks(const Seats& seats);
  void check_the_old_round(int job, const Seats& seats);
  void check_root(const JobRecord& job, const link::Finish& finish);
  void check_stopped(const JobRecord& job, const link::Finish& finish);
  void check_seats_of_commands(const JobRecord& job, const Seats& seats);
  void forget_commands(int job, bool all, bool knows_commands);
  bool a_node_left_its_seat(int job) const;
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
  bool tells_story_ = false;  // there are unidentified clients, whose lies must not show in it
  // When the first job that a node hosts was over. A later node meets its host or begins another
  // job, which may depend on an unidentified client: a host waits for its connections.
  std::optional<TimePoint> story_ends_;
  int takeovers_ = 0;
  bool must_go_on_ = false;
  bool must_turn_ = false;
  std::string story_;
  std::optional<std::string> verdict_;
};

}  // namespace cpprun::sim
