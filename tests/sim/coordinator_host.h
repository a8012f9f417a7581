// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The coordinator of a simulated world, the counterpart of CoordinatorServer. It runs in the
// process of the node that hosts it, or in a cpprund on its own machine, which may be one of
// several (coordinator_host_leading.cpp).

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "proto/clock.h"
#include "proto/state_machine.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/held_messages.h"
#include "rendezvous/coordinator/io/replicated_coordinator.h"
#include "tests/sim/hosted_stores.h"
#include "tests/sim/kept_logs.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/network.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

// The first agent on that node's machine. It counts as the agent that started the daemon of that
// number. Their machines fail independently here: a rank must not be held twice even then.
RoundVotes::Agent first_agent_of(int node);

class CoordinatorHost : public ReplicatedCoordinator {
 public:
  struct Hooks {
    std::function<void(link::Message)> to_local_agent;
    std::function<void()> done;  // the hosted job is over and all nodes have the result
    std::function<void(std::optional<TimePoint>)> leads_until = {};
    std::function<void()> leads = {};        // it was a standby and is the leader from now on
    std::function<void()> leads_again = {};  // it lost leadership and resumes
    std::function<bool()> is_led = {};       // there is another leader, as the world knows
    // --- one of several cpprunds ---
    std::function<std::uint64_t(const std::string& job, const std::string& record)> keep_record =
        {};
    std::function<std::uint64_t(const std::string& job)> forget_record = {};
  };
  CoordinatorHost(Universe& universe, Program& program, const MachineClock& clock, int place,
                  Hooks hooks);

  // A new coordinator without any data. One of several cpprunds is a follower until further notice.
  void begin() { begin({}); }
  // A new coordinator with the records of the previous one.
  void begin_with_records() { begin(std::exchange(records_, {})); }
  // A standby of another coordinator, with the record of that one.
  void stand_by(const std::string& record);
  // A query on a link of its own.
  void asked(const link::WhoHosts& question, const std::string& address);
  void stand(const link::Join& own, bool is_transfer) {
    tell(Coordinator::VoteRequest{own, is_transfer});
  }
  void end();
  // Called after a suspension: the clock has advanced.
  void wake();
  void serve(Network& network) { network_ = &network; }
  Coordinator* coordinator() { return coordinator_.running() ? &coordinator_.machine() : nullptr; }

  // --- leadership (ReplicatedCoordinator) ---
  void lead(link::Members members) override;
  void let_in() override;
  void change_members(std::vector<std::string> places) override {
    tell(Coordinator::MembersChanged{std::move(places)});
  }
  std::map<std::string, std::string> follow(const Coordinator::Follows& follows) override;
  void leader_until(std::optional<TimePoint> until) override;
  std::optional<TimePoint> speaks_until() const override { return speaks_until_; }
  std::size_t link_count() const override;
  void wait_for(CommitSource keeping, std::uint64_t number) override {
    held_.wait_for(keeping, number);
  }
  void kept(CommitSource keeping, std::uint64_t through) override;
  StoreLogs& logs() override { return stores_.logs(); }
  std::map<std::string, std::string> records() const override;
  void recover_hosts(std::vector<Exclusions::Entry> hosts) override;
  void recover_with_replica(JobRecord record) override;
  Result<void> begin_replica(const std::string& job, RoundNumber round) override {
    return stores_.begin_replica(job, round);
  }
  Result<void> add_to_replica(const std::string& job, std::string_view bytes) override {
    return stores_.add_to_replica(job, bytes);
  }
  void replica_is_whole(const std::string& job) override { stores_.replica_is_whole(job); }
  void end_replica(const std::string& job) override { stores_.end_replica(job); }
  void end_replicas(const std::map<std::string, std::string>& but_of) override {
    stores_.end_replicas(but_of);
  }

  // --- from the network ---
  void accepted(const ConnectionRef& connection);
  void heard(const ConnectionRef& connection, const Packet& packet);
  void closed(LinkId link, const std::string& reason, bool broken);

  // --- from unidentified clients, whose frames are passed on unchanged ---
  LinkId unidentified_comes(const std::string& address);
  void unidentified_says(LinkId link, const std::string& bytes);
  void unidentified_leaves(LinkId link, bool broken);
  bool knows_unidentified(LinkId link) const { return unidentified_connections_.contains(link); }

  // --- from an operator ---
  void take(OperatorCommand command);

  // --- from workers ---
  // A worker of this node.
  void accept_worker(const std::shared_ptr<Loopback>& worker);
  // The link has room for stream frames again.
  void has_room(LinkId link);
  // A client on that link, or a worker of this machine, would be answered at once.
  bool is_calm(std::optional<LinkId> link, RoundId round) const;

  // --- from the agent in this process ---
  void hear_local_agent(const link::Message& message);
  void local_agent_left();

 private:
  // By job, as stored on disk.
  using Records = std::map<std::string, std::string>;
  void begin(const Records& before, bool stands_by = false);
  CoordinatorOptions options() const;
  void show_record(const coordinator::ShowRecord& show);
  void recover(const Records& records);
  void replay(const std::string& job, RoundNumber round, std::string_view log);
  ClockPair moment() const;
  void tell(Coordinator::Event event) { coordinator_.post(std::move(event)); }
  void perform(const coordinator::Action& action);
  void hold_or_say(const coordinator::Action& action);
  void say(const coordinator::Action& action);
  void say(const coordinator::HangUp& hang_up);
  void say(const coordinator::Say& say);
  void judge_say(int node, const coordinator::Say& say);
  void send_streams(LinkId link, std::string_view frame);
  void keep(const std::string& job);
  void forget(const coordinator::CloseStore& close);
  void forget_for_good();
  LinkId links_before(const JobRecord& record);
  bool is_of_set() const { return universe_.scenario.set.has_value(); }
  std::optional<std::uint64_t> epoch() const { return coordinator_.machine().epoch(); }
  bool may_speak();
  bool is_heard() const { return !speaks_until_ || now() < *speaks_until_; }
  // There is no leader in a later epoch.
  bool is_in_force() const;
  bool is_of_another_job();
  void judge_message(const link::Message& message);
  void judge_seal(int job, const link::Sealed& sealed);
  RoundId own_round(int number, const std::string& job);
  void open_store(const std::string& job);
  void judge_unidentified();
  void judge_time();
  void judge_admission(const Coordinator::Actions& actions);
  void judge_seals(const Coordinator::Actions& actions);
  void judge_notes(const Coordinator::Actions& actions);
  void judge_command(const coordinator::Answered& answered);
  // Judges the commands behind at most so many messages.
  void judge_commands_behind(std::uint64_t words, bool is_answered);
  void arm(std::optional<TimePoint> deadline);
  TimePoint now() const { return clock_.local(universe_.time.now()); }
  int node_of(LinkId link) const;
  // The node whose process it is in, if it is in a node's.
  int host_node() const { return std::max(place_, 0); }
  // Only for the jobs of the scenario: a garbled frame of an unidentified client may name any
  // other.
  std::optional<int> job_number(const std::string& id) const;

  Universe& universe_;
  Program& program_;
  const MachineClock& clock_;
  const int place_;
  Hooks hooks_;
  Network* network_ = nullptr;
  Driver<Coordinator> coordinator_;
  std::uint64_t incarnation_ = 0;
  std::optional<TimePoint> armed_;  // true time
  std::uint64_t timer_ = 0;
  std::map<LinkId, int> nodes_;
  std::set<LinkId> unidentified_connections_;
  std::set<std::string> unidentified_addresses_;  // all so far
  std::optional<LinkId> local_link_;
  HostedStores stores_;
  int stores_opened_ = 0;
  Records records_;
  KeptLogs logs_;
  // The node time in the rounds of a job, by its number.
  struct NodesSeen {
    std::optional<NodeDuration> at;  // at this time
    std::size_t nodes = 0;           // since then
    NodeDuration time{};
    bool is_of_another = false;  // the previous coordinator has counted up to here
  };
  std::map<std::size_t, NodesSeen> nodes_seen_;
  bool reported_done_ = false;
  std::optional<TimePoint> leads_until_;  // as reported last
  // --- one of several cpprunds ---
  CommitQueue held_;
  std::uint64_t held_count_ = 0;  // messages ever held
  std::uint64_t said_count_ = 0;  // messages sent of those
  // Verdicts on commands, each due when everything that was decided before it is known.
  std::deque<std::pair<std::uint64_t, std::function<void(bool)>>> commands_;
  std::optional<TimePoint> speaks_until_;
  bool has_kept_quiet_ = false;
  std::set<LinkId> links_with_gaps_;      // links that end because messages may be missing
  std::set<int> forgotten_;               // jobs, and others may not know it
  std::map<std::string, int> job_ports_;  // of its jobs
  std::set<std::string> recovered_;       // jobs whose store is not open yet
};

// "job0" of job 0.
std::string job_id(int job);

}  // namespace cpprun::sim
