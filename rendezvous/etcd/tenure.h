// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// By what right, and until when, a contest's winner leads.
//
// The key "leader" is bound to a lease of etcd's, and vanishes with it. The lease is confirmed by
// its grant, which is a decision of etcd's majority, or by a renewal, which is not: etcd's own
// leader renews by itself. One that was stopped, and goes on, does so while the others have chosen
// another, who knows nothing of it (3.4.23 does). So a renewal counts when a linearizable read
// after it shows the term of Raft that the member which took it had seen before: nobody else can
// have been chosen by then, and whoever is chosen later gives every lease its full time.
//
// The right ends a margin before the time of the lease has passed since the confirmation was ASKED
// for. etcd counts from a later moment, so nobody else can win before.
//
// The same etcd that was stopped may also end leases that were renewed with its successor. It
// cannot do so with one that it has never heard of. So after each new term the key moves to a new
// lease; wait_to_run() (contest_view.h) has the other half of this.

#include <cstdint>
#include <optional>

#include "proto/clock.h"
#include "proto/etcd_bounds.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

struct GrantedLease {
  etcd::LeaseId id = etcd::no_lease;
  Duration ttl{};
  TimePoint confirmed{};   // when that was asked for
  std::uint64_t term = 0;  // etcd's, no later than it was granted
  friend bool operator==(const GrantedLease&, const GrantedLease&) = default;

  TimePoint until() const { return confirmed + ttl - bounds::contest_margin(ttl); }
};

class Tenure {
 public:
  explicit Tenure(const GrantedLease& lease);

  TimePoint until() const { return lease_.until(); }
  const GrantedLease& lease() const { return lease_; }
  // Whether the key may be bound to that one.
  bool owns(etcd::LeaseId lease) const;

  // The lease to be renewed next, and when.
  etcd::LeaseId renewed_lease() const { return next_ ? next_->id : lease_.id; }
  TimePoint renew_at() const { return renew_at_; }
  // Renewing has failed; the next time is soon.
  void renewal_failed(TimePoint now);
  // etcd says that it has renewed it, asked at that time and at that term. It needs a read now.
  void renewed(TimePoint sent, Duration ttl, std::uint64_t term);
  bool needs_read() const { return renewal_.has_value(); }
  // A read that was asked for after that has come back. True: the right lasts longer than before.
  bool read(TimePoint now, std::uint64_t term);

  // The key had better be bound to a lease of the present term.
  bool wants_next() const { return !next_ && term_ != lease_.term; }
  std::uint64_t term() const { return term_; }
  void take_next(const GrantedLease& lease);
  const std::optional<GrantedLease>& next() const { return next_; }
  // The key is bound to it. Gives the one that is not needed any more.
  etcd::LeaseId moved();
  // It is gone, and the key was never bound to it.
  void lose_next();

 private:
  struct Renewal {
    TimePoint sent;
    Duration ttl;
    std::uint64_t term;
  };
  void plan_renewal(TimePoint sent);

  GrantedLease lease_;
  // Granted in a later term. It was confirmed after lease_ was for the last time, and lease_ is not
  // renewed any more: so the right is never shorter than was said, whichever the key is bound to.
  std::optional<GrantedLease> next_;
  std::optional<Renewal> renewal_;  // that a read has yet to confirm
  TimePoint renew_at_;
  std::uint64_t term_;  // etcd's, as it was read last
};

}  // namespace cpprun
