// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A contest for the lead with etcd as judge (Contest), and the numbers for its ids (NumberStream).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/etcd_bounds.h"
#include "proto/state_machine.h"
#include "rendezvous/etcd/contest_events.h"
#include "rendezvous/etcd/contest_requests.h"
#include "rendezvous/etcd/contest_view.h"
#include "rendezvous/etcd/etcd_endpoint.h"
#include "rendezvous/etcd/leader_lease.h"

namespace cpprun {

// Numbers that nobody else has, out of one that is random: splitmix64. For ids, and not for
// secrets.
class NumberStream {
 public:
  explicit NumberStream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t value = state_ += 0x9E3779B97F4A7C15ULL;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }
  // Above zero.
  std::int64_t positive() { return static_cast<std::int64_t>(next() >> 1 | 1); }

 private:
  std::uint64_t state_;
};

struct ContestOptions {
  std::string name;  // of this one; no two programs have the same
  std::string card;  // how it is reached, in the owner's words
  ContestKeys keys;
  std::vector<EtcdEndpoint> endpoints;
  Duration ttl = bounds::contest_ttl;  // of the lease; etcd may grant more
  ContestMemory memory = {};
  std::uint64_t seed = 0;  // random: ids of leases and clusters are made of it
  // Whoever leads and withdraws takes its keys with it where it keeps no record; whoever has known
  // them takes that for a new beginning.
  bool leaves_nothing = false;
};
// Why there cannot be such a contest, as a clause.
std::optional<std::string> impossible(const ContestOptions& options);

// One of several programs that want to lead, or want to know who does, with etcd as judge. It knows
// no socket: it says what etcd is to be asked (contest_events.h), is told the answers, and says
// what follows. README.md has what is kept in etcd, and why no two lead at once.
//
//   following ── nobody leads, and it is its turn ──► granting ──► standing ──► loading ──► leading
//       ▲                                                 │         ▲   ▼          │           │
//       │                                                 │     finding_out        │           ▼
//       └───── somebody else was first, or its right is over ◄──────┴──────────────┴────────
//       leaving
//
// finding_out: whether it has won is not known, for etcd has not answered, and is read from there.
// loading: it has won, reads what was left, and takes over from whoever had everything. leaving:
// the owner has asked for it.
class Contest {
 public:
  using Event = contest::Event;
  using Action = contest::Action;
  using Actions = contest::Actions;

  enum class Phase { following, granting, standing, finding_out, loading, leading, leaving };

  explicit Contest(ContestOptions options);

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

  Phase phase() const { return phase_; }
  bool is_leading() const { return phase_ == Phase::leading; }

 private:
  using Lane = contest::Lane;
  using Step = AskLanes::Step;
  using Asked = AskLanes::Asked;

  // contest.cpp: what it is told, and when it has to do something.
  void hear(TimePoint now, const contest::Enter&, Actions& actions);
  void hear(TimePoint now, const contest::Withdraw&, Actions& actions);
  void hear(TimePoint now, const contest::HandOver& hand, Actions& actions);
  void hear(TimePoint now, const contest::Publish& publish, Actions& actions);
  void hear(TimePoint now, const contest::Keep& keep, Actions& actions);
  void hear(TimePoint now, const contest::Drop& drop, Actions& actions);
  void hear(TimePoint now, const contest::Attend& attend, Actions& actions);
  void hear(TimePoint now, const contest::Answered& answered, Actions& actions);
  void expire(TimePoint now, Actions& actions);
  void go_on(TimePoint now, Actions& actions);
  void finish(TimePoint now, Actions& actions);
  void hear_step(TimePoint now, const Asked& asked, const etcd::Answer& answer, Actions& actions);
  void note_failure(TimePoint now, const Asked& asked, const etcd::Failure& failed,
                    Actions& actions);
  void note_success(TimePoint now, const Asked& asked, Actions& actions);
  void wait_with_unused(TimePoint now);
  void fail_step(TimePoint now, const Asked& asked, etcd::Failure::Kind kind, Actions& actions);

  // --- what is asked next, and when ---
  std::optional<Step> next_lease_step(TimePoint now) const;
  std::optional<Step> next_writes_step(TimePoint now) const;
  std::optional<TimePoint> lease_due() const;
  std::optional<TimePoint> writes_due() const;
  void ask(TimePoint now, Lane lane, Step step, Actions& actions);
  etcd::Request request_for(Step step, Actions& actions);
  bool wants_next_lease() const;
  Duration look_pause(TimePoint now) const;

  // --- who follows, and who wants to lead ---
  void hear_look(TimePoint now, const Asked& asked, const etcd::Decided& decided, Actions& actions);
  void hear_grant(TimePoint now, const Asked& asked, const etcd::Granted& granted);
  void hear_stand(TimePoint now, const etcd::Decided& decided, Actions& actions);
  void fail_to_stand(TimePoint now, etcd::Failure::Kind kind);
  void see(TimePoint now, ContestView view, Actions& actions);
  void see_strange(TimePoint now, const std::string& reason, Actions& actions);
  void settle(TimePoint now, ContestView view, Actions& actions);
  void win(TimePoint now, etcd::Revision epoch, Actions& actions);
  bool is_fresh(TimePoint now) const;
  void bar(const std::optional<std::string>& reason, Actions& actions);
  bool may_run() const { return is_wanted_ && !barred_; }
  void tell_who_leads(Actions& actions);
  void tell_cluster(const std::string& cluster, Actions& actions);
  etcd::Request request_to_stand();

  // --- who has won ---
  void see_own(TimePoint now, const Asked& asked, const ContestView& view, Actions& actions);
  void hear_keep_alive(TimePoint now, const Asked& asked, const etcd::KeptAlive& kept);
  void hear_alarms(TimePoint now, const Asked& asked, const etcd::Alarms& alarms, Actions& actions);
  void hear_load(TimePoint now, const etcd::Decided& decided, Actions& actions);
  void fail_to_load(TimePoint now, etcd::Failure::Kind kind);
  void take_over(Actions& actions);
  void depose(TimePoint now, std::string reason, bool is_orderly, Actions& actions);
  void let_go(TimePoint now);
  void put_away(etcd::LeaseId lease, TimePoint now,
                std::optional<etcd::Transaction> farewell = std::nullopt);
  etcd::Transaction farewell() const;
  void tell_will(Actions& actions) const;
  bool has_won() const {
    return phase_ == Phase::loading || phase_ == Phase::leading || phase_ == Phase::leaving;
  }

  // --- what whoever leads has written ---
  bool accepts(std::uint64_t number, Actions& actions);
  void refuse(std::uint64_t number, std::string reason, Actions& actions);
  void tell_written(Actions& actions);
  void hear_fenced(TimePoint now, const Asked& asked, const etcd::Decided& decided,
                   Actions& actions);
  void end_orderly(std::string heir, std::string reason, Actions& actions);
  void fail_fenced(TimePoint now, Step step, etcd::Failure::Kind kind, Actions& actions);
  std::vector<etcd::Operation> operations_of(const ChangeQueue::Batch& batch, Actions& actions);
  std::vector<etcd::Operation> operations_for(Step step, Actions& actions);
  etcd::Request fenced_request(Step step, Actions& actions);
  Synced own_synced(const GrantedLease& lease) const;

  static const PhaseOf<Phase>::Steps steps;

  // A lease that is not needed, or of which it is not known whether it was granted; and what is to
  // be said before it goes, where it has led by it.
  struct Unused {
    etcd::LeaseId id = etcd::no_lease;
    TimePoint ready{};
    std::optional<etcd::Transaction> farewell = {};
  };

  ContestOptions options_;
  NumberStream numbers_;
  PhaseOf<Phase> phase_{Phase::following, steps};
  AskLanes lanes_;
  bool is_wanted_ = false;                     // it wants to lead
  bool is_needed_ = true;                      // somebody wants to hear who does
  std::optional<TimePoint> attended_at_ = {};  // when somebody said so last
  TimePoint eager_until_ = TimePoint::min();   // what comes in a moment is looked for until then
  // The owner waits to hear that nothing of it is left, and no longer than that.
  std::optional<TimePoint> withdrawn_by_;
  std::deque<Unused> unused_;
  etcd::LeaseId asked_lease_ = etcd::no_lease;  // by the grant that is under way

  std::string trouble_;                // the last failure, in words
  std::optional<TimePoint> heard_at_;  // the last answer about leases
  bool is_unreachable_ = false;
  bool is_unwritable_ = false;
  bool is_alarmed_ = false;                 // it is unwritable by the word of an alarm
  TimePoint alarms_at_ = TimePoint::max();  // they are read then, where it leads

  // Who follows, and who runs.
  TimePoint look_at_ = TimePoint::min();
  std::optional<ContestView> view_;               // as it was seen last
  std::optional<TimePoint> vacant_since_;         // as far as was seen
  std::optional<TimePoint> run_at_;               // nobody leads, and then it is its turn
  TimePoint not_before_ = TimePoint::min();       // it runs again after it could not
  std::optional<std::string> barred_;             // why it neither leads nor follows
  std::optional<contest::LeaderIs> told_leader_;  // as the owner knows
  bool told_nobody_ = false;                      // that it leads, or anybody
  std::string told_cluster_;
  std::string new_cluster_;  // that begins with it, if none was there

  // Who has a lease, and who has won.
  std::optional<Tenure> tenure_;
  Fence fence_;
  bool must_look_ = false;          // whether the key is its own still
  TimePoint move_at_{};             // not before, to a lease of etcd's new term
  std::vector<std::string> names_;  // who is synced, as it was written last
  std::vector<std::string> names_before_;
  std::vector<contest::Record> loaded_;
  std::string load_from_;  // where the next page begins
  bool is_loaded_ = false;
  // What it has won last without ever leading, and who had everything then.
  etcd::Revision idle_epoch_ = -1;
  std::vector<std::string> idle_names_;

  // What it writes.
  ChangeQueue queue_;
  std::uint64_t told_written_ = 0;
  RecordSizes sizes_;
  std::string heir_;  // in the end
  struct Fenced {
    Step step;
    etcd::Transaction transaction;
  };
  std::optional<Fenced> fenced_;  // asked for, word for word the same, until it was judged
};

}  // namespace cpprun
