// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The leader's lease (LeaderLease), and the fencing of its changes in etcd (FencingToken).

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/election_view.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

struct GrantedLease {
  etcd::LeaseId id = etcd::no_lease;
  Duration ttl{};
  TimePoint confirmed{};   // when the confirmed request was sent
  std::uint64_t term = 0;  // etcd's Raft term, no later than that of the grant
  friend bool operator==(const GrantedLease&, const GrantedLease&) = default;

  TimePoint until() const;
};

// The duration in etcd's whole seconds, capped at the longest duration in use.
constexpr Duration lease_time(std::int64_t seconds) {
  constexpr std::int64_t most = bounds::election_ttl_max / std::chrono::seconds(1);
  return std::chrono::seconds(std::min(seconds, most));
}

// The leader's lease.
//
// The key "leader" is bound to an etcd lease and vanishes with it. The lease is confirmed by its
// grant, or by a renewal after which a read still found the key. Leadership ends a margin before
// the lease's duration has passed since the confirmed request was SENT. etcd counts from a later
// moment, so the key outlives the leadership.
//
// One exception: renewals are decided by etcd's leader alone, not by a majority. An etcd leader
// that was suspended, and resumes while the others have elected another, renews leases that its
// successor does not know of, and expires leases that were renewed there (etcd issue 15247; 3.4.23
// does). It cannot do so with leases granted after its time as leader. Therefore the term in which
// the lease was granted, or an earlier one, is recorded. If etcd has elected another leader since,
// the next candidate waits for the duration of the lease once more (wait_to_run() in
// election_view.h). To make that rare, the key moves to a new lease after each new term.
class LeaderLease {
 public:
  explicit LeaderLease(const GrantedLease& lease);

  TimePoint until() const { return lease_.until(); }
  const GrantedLease& lease() const { return lease_; }
  // Whether the key may be bound to that lease.
  bool owns(etcd::LeaseId lease) const;

  // The lease to renew next, and when.
  etcd::LeaseId renewed_lease() const { return next_ ? next_->id : lease_.id; }
  TimePoint renew_at() const { return renew_at_; }
  // The renewal, or the read after it, failed. The next attempt is at `again`.
  void renewal_failed(TimePoint again);
  // etcd replied that it renewed the lease; the request was sent at `sent`. The key has to be read
  // now.
  void renewed(TimePoint sent, Duration ttl);
  bool needs_look() const { return renewal_.has_value(); }
  // The key was found bound to one of these leases, in that Raft term. True: the lease is extended.
  bool seen(std::uint64_t term);

  // The key should move to a lease of the current term.
  bool wants_next() const { return !next_ && term_ != lease_.term; }
  std::uint64_t term() const { return term_; }
  void take_next(const GrantedLease& lease);
  const std::optional<GrantedLease>& next() const { return next_; }
  // The key is bound to the next lease. Returns the old one, which is not needed any longer.
  etcd::LeaseId moved();
  // The next lease is gone, and the key was never bound to it.
  void lose_next();

 private:
  struct Renewal {
    TimePoint sent;
    Duration ttl;
  };
  void plan_renewal(TimePoint sent);

  GrantedLease lease_;
  // Granted in a later term. It was confirmed after the last confirmation of lease_, which is not
  // renewed any longer. So the announced end is never too late, whichever lease the key is bound
  // to.
  std::optional<GrantedLease> next_;
  std::optional<Renewal> renewal_;  // still to be confirmed by a read
  TimePoint renew_at_;
  std::uint64_t term_;  // etcd's Raft term, as last seen
};

// The last change of that epoch's leader: deletes its key, and `synced` records that it does not
// lead. However late it is applied, it does not affect a later leader.
etcd::Transaction resignation(const ElectionKeys& keys, etcd::Revision epoch, std::string synced);

// Fencing token for the leader's changes in etcd. A change is applied only while the key "leader"
// has the revision at which this leader created it, and only after its previous change. The second
// condition is for changes with an unknown outcome: they are repeated unchanged, and only the first
// copy to arrive is applied. Without it a delayed copy could undo a later change.
class FencingToken {
 public:
  // Part of the winning transaction: the first turn.
  static etcd::Put first_turn(const ElectionKeys& keys) { return {keys.turn(), "0"}; }

  FencingToken() = default;
  explicit FencingToken(etcd::Revision epoch) : epoch_(epoch), turn_changed_(epoch) {}

  etcd::Revision epoch() const { return epoch_; }
  // The next change. The previous one has to be judged done.
  etcd::Transaction guard(const ElectionKeys& keys, std::vector<etcd::Operation> operations);

  enum class Verdict { done, lost };
  // The outcome of the last change. Lost: another candidate leads.
  Verdict judge(const etcd::Decided& decided);

 private:
  std::string turn_text() const;

  etcd::Revision epoch_ = 0;
  etcd::Revision turn_changed_ = 0;  // the revision of its last change
  std::uint64_t turn_ = 0;           // the number of changes so far
};

}  // namespace cpprun
