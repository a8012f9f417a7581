// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Leader election with etcd as the arbiter (LeaderElection), and a generator of ids (NumberStream).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/state_machine.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/election_events.h"
#include "rendezvous/etcd/election_requests.h"
#include "rendezvous/etcd/election_view.h"
#include "rendezvous/etcd/etcd_request.h"
#include "rendezvous/etcd/leader_lease.h"

namespace cpprun {

// Unique numbers from a random seed: splitmix64. For ids, not for secrets.
class NumberStream {
 public:
  explicit NumberStream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }
  // Greater than zero.
  std::int64_t positive() { return static_cast<std::int64_t>(next() >> 1 | 1); }

 private:
  std::uint64_t state_;
};

struct ElectionOptions {
  std::string name;  // of this candidate; unique among all candidates
  std::string card;  // how clients reach it; opaque to the election
  ElectionKeys keys;
  std::vector<EtcdEndpoint> endpoints;
  Duration ttl = bounds::election_ttl;  // of the lease; etcd may grant a longer one
  std::uint64_t seed = 0;               // random; ids of leases and clusters are derived from it
  // A leader that withdraws and keeps no records deletes its keys. Candidates that remember them
  // treat the missing keys as a fresh start.
  bool leaves_nothing = false;
};
// Why such an election is impossible, as a clause; empty if it is possible.
std::optional<std::string> impossible(const ElectionOptions& options);

// One candidate of a leader election with etcd as the arbiter. A state machine
// without I/O: it emits requests to etcd (election_events.h), receives the replies, and emits the
// consequences. README.md describes the keys in etcd, and why two candidates never lead at once.
//
//   following ── no leader, and it is its turn ─────► granting ──► standing ──► loading ──► leading
//       ▲                                                 │         ▲   ▼          │           │
//       │                                                 │     finding_out        │           ▼
//       └───── another one was first, or its lease has ended ◄──────┴──────────────┴────────
//       leaving
//
// standing: it has a lease and tries to create the leader key. finding_out: etcd did not reply, so
// it reads whether it has won. loading: it has won; it reads the records of its predecessors and
// takes over from the synced members. leaving: the owner has asked it to resign.
class LeaderElection {
 public:
  using Event = election::Event;
  using Action = election::Action;
  using Actions = election::Actions;

  enum class Phase { following, granting, standing, finding_out, loading, leading, leaving };

  explicit LeaderElection(ElectionOptions options);

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

  Phase phase() const { return phase_; }
  bool is_leading() const { return phase_ == Phase::leading; }

 private:
  using Lane = election::Lane;
  using Step = AskLanes::Step;
  using Asked = AskLanes::Asked;

  // leader_election.cpp: events and deadlines.
  void hear(TimePoint now, const election::Enter&, Actions& actions);
  void hear(TimePoint now, const election::Withdraw&, Actions& actions);
  void hear(TimePoint now, const election::HandOver& hand, Actions& actions);
  void hear(TimePoint now, const election::Publish& publish, Actions& actions);
  void hear(TimePoint now, const election::Keep& keep, Actions& actions);
  void hear(TimePoint now, const election::Drop& drop, Actions& actions);
  void hear(TimePoint now, const election::Attend& attend, Actions& actions);
  void hear(TimePoint now, const election::Answered& answered, Actions& actions);
  void expire(TimePoint now, Actions& actions);
  void go_on(TimePoint now, Actions& actions);
  void finish(TimePoint now, Actions& actions);
  void hear_step(TimePoint now, const Asked& asked, const etcd::Answer& answer, Actions& actions);
  void note_failure(TimePoint now, const Asked& asked, const etcd::Failure& failed,
                    Actions& actions);
  void note_success(TimePoint now, const Asked& asked, Actions& actions);
  void wait_with_unused(TimePoint now);
  void fail_step(TimePoint now, const Asked& asked, etcd::Failure::Kind kind, Actions& actions);

  // --- next request, and when ---
  std::optional<Step> next_lease_step(TimePoint now) const;
  std::optional<Step> next_writes_step(TimePoint now) const;
  std::optional<TimePoint> lease_due() const;
  std::optional<TimePoint> writes_due() const;
  void ask(TimePoint now, Lane lane, Step step, Actions& actions);
  etcd::Request request_for(Step step, Actions& actions);
  bool wants_next_lease() const;
  Duration look_pause(TimePoint now) const;

  // --- following and campaigning ---
  void hear_look(TimePoint now, const Asked& asked, const etcd::Decided& decided, Actions& actions);
  void hear_grant(TimePoint now, const Asked& asked, const etcd::Granted& granted);
  void hear_stand(TimePoint now, const etcd::Decided& decided, Actions& actions);
  void fail_to_stand(TimePoint now, etcd::Failure::Kind kind);
  void see(TimePoint now, ElectionView view, Actions& actions);
  void see_strange(TimePoint now, const std::string& reason, Actions& actions);
  void adopt_view(TimePoint now, ElectionView view, Actions& actions);
  void win(TimePoint now, etcd::Revision epoch, Actions& actions);
  bool is_fresh(TimePoint now) const;
  void bar(const std::optional<std::string>& reason, Actions& actions);
  bool may_run() const { return is_wanted_ && !barred_; }
  void tell_who_leads(Actions& actions);
  etcd::Request request_to_stand();

  // --- after winning ---
  void see_own(TimePoint now, const Asked& asked, const ElectionView& view, Actions& actions);
  void hear_keep_alive(TimePoint now, const Asked& asked, const etcd::KeptAlive& kept);
  void hear_alarms(TimePoint now, const Asked& asked, const etcd::Alarms& alarms, Actions& actions);
  void hear_load(TimePoint now, const etcd::Decided& decided, Actions& actions);
  void fail_to_load(TimePoint now, etcd::Failure::Kind kind);
  void take_over(Actions& actions);
  void depose(TimePoint now, std::string reason, bool is_orderly, Actions& actions);
  void let_go(TimePoint now);
  void revoke(etcd::LeaseId lease, TimePoint now,
              std::optional<etcd::Transaction> resignation = std::nullopt);
  etcd::Transaction own_resignation() const;
  void tell_will(Actions& actions) const;
  bool has_won() const {
    return phase_ == Phase::loading || phase_ == Phase::leading || phase_ == Phase::leaving;
  }

  // --- what the leader writes ---
  bool accepts(std::uint64_t number, Actions& actions);
  void refuse(std::uint64_t number, std::string reason, Actions& actions);
  void tell_written(Actions& actions);
  void hear_fenced(TimePoint now, const Asked& asked, const etcd::Decided& decided,
                   Actions& actions);
  void end_orderly(std::string successor, std::string reason, Actions& actions);
  void fail_fenced(TimePoint now, Step step, etcd::Failure::Kind kind, Actions& actions);
  std::vector<etcd::Operation> operations_of(const ChangeQueue::Batch& batch, Actions& actions);
  std::vector<etcd::Operation> operations_for(Step step, Actions& actions);
  etcd::Request fenced_request(Step step, Actions& actions);
  Synced own_synced(const GrantedLease& lease) const;

  static const PhaseOf<Phase>::Steps steps;

  // A lease that is not needed, or whose grant is unknown. With it the resignation to write before
  // the revocation, if it led by that lease.
  struct Unused {
    etcd::LeaseId id = etcd::no_lease;
    TimePoint ready{};
    std::optional<etcd::Transaction> resignation = {};
  };

  ElectionOptions options_;
  NumberStream numbers_;
  PhaseOf<Phase> phase_{Phase::following, steps};
  AskLanes lanes_;
  bool is_wanted_ = false;                     // it wants to lead
  std::optional<TimePoint> attended_at_ = {};  // when the owner last asked for news
  TimePoint eager_until_ = TimePoint::min();   // it looks more often until then
  // The owner waits until no trace of it is left in etcd, but no longer than this.
  std::optional<TimePoint> withdrawn_by_;
  std::deque<Unused> unused_;
  etcd::LeaseId asked_lease_ = etcd::no_lease;  // of the pending grant

  std::string trouble_;                // the last failure, as text
  std::optional<TimePoint> heard_at_;  // the last reply in the lease lane
  bool is_unreachable_ = false;
  bool is_unwritable_ = false;
  bool is_alarmed_ = false;                 // is_unwritable_ is due to an alarm
  TimePoint alarms_at_ = TimePoint::max();  // when the leader reads them next

  // Following and campaigning.
  TimePoint look_at_ = TimePoint::min();
  std::optional<ElectionView> view_;                   // the last one read
  std::optional<TimePoint> vacant_since_;              // as observed
  std::optional<TimePoint> run_at_;                    // there is no leader, and it campaigns then
  TimePoint not_before_ = TimePoint::min();            // no new campaign before, after a failed one
  std::optional<std::string> barred_;                  // why it neither leads nor follows
  std::optional<election::LeaderIs> reported_leader_;  // the last one reported to the owner
  bool reported_no_leader_ = false;                    // reported that there is no leader
  ElectionMemory memory_;
  std::string new_cluster_;  // the id that it creates if there is no cluster yet

  // With a lease, and after winning.
  std::optional<LeaderLease> leader_lease_;
  FencingToken fence_;
  bool must_look_ = false;          // it has to check that the key is still its own
  TimePoint move_at_{};             // no move to a lease of etcd's new term before
  std::vector<std::string> names_;  // the synced members, as last written
  std::vector<std::string> names_before_;
  std::map<std::string, std::string> loaded_;
  std::string load_from_;  // where the next page starts
  bool is_loaded_ = false;
  // The last epoch that it won without ever leading, and the synced members at that time.
  etcd::Revision idle_epoch_ = -1;
  std::vector<std::string> idle_names_;

  // What it writes.
  ChangeQueue queue_;
  std::uint64_t told_written_ = 0;
  RecordSizes sizes_;
  std::string successor_;  // the chosen successor, when it resigns
  struct Fenced {
    Step step;
    etcd::Transaction transaction;
  };
  std::optional<Fenced> fenced_;  // repeated unchanged until its outcome is known
};

}  // namespace cpprun
