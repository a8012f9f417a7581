// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Until when a contest's winner leads (Tenure), and what makes a change in etcd its own (Fence).

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/etcd_bounds.h"
#include "rendezvous/etcd/contest_view.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

struct GrantedLease {
  etcd::LeaseId id = etcd::no_lease;
  Duration ttl{};
  TimePoint confirmed{};   // when that was asked for
  std::uint64_t term = 0;  // etcd's, no later than it was granted
  friend bool operator==(const GrantedLease&, const GrantedLease&) = default;

  TimePoint until() const;
};

// As etcd counts it; what it gives beyond reason is not used.
constexpr Duration lease_time(std::int64_t seconds) {
  constexpr std::int64_t most = bounds::contest_ttl_max / std::chrono::seconds(1);
  return std::chrono::seconds(std::min(seconds, most));
}

// By what right, and until when, a contest's winner leads.
//
// The key "leader" is bound to a lease of etcd's, and vanishes with it. The lease is confirmed by
// its grant, or by a renewal after which the key was seen to be there still. The right ends a
// margin before the time of the lease has passed since the confirmation was ASKED for. etcd counts
// from a later moment, so the key is there for longer than the right.
//
// With one exception: renewals are no decision of etcd's majority, but of its own leader alone. One
// that was stopped, and goes on while the others have chosen another, renews leases that its
// successor knows nothing of, and ends leases that were renewed there (etcd's issue 15247; 3.4.23
// does). It can do so with no lease that was granted after it had led. So it is written down in
// which term of etcd's the lease was granted, no later; where etcd has chosen another leader since,
// the next one waits for the time of the lease once more (wait_to_run() in contest_view.h); and so
// that nobody has to, the key moves to a new lease after each new term.
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
  // Renewing has failed, or the read after it; the next time is then.
  void renewal_failed(TimePoint again);
  // etcd says that it has renewed it, asked at that time. The key has to be looked at now.
  void renewed(TimePoint sent, Duration ttl);
  bool needs_look() const { return renewal_.has_value(); }
  // The key was bound to one of these leases, in that term of etcd's. True: the right lasts longer.
  bool seen(std::uint64_t term);

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
  };
  void plan_renewal(TimePoint sent);

  GrantedLease lease_;
  // Granted in a later term. It was confirmed after lease_ was for the last time, and lease_ is not
  // renewed any more: so the right is never shorter than was said, whichever the key is bound to.
  std::optional<GrantedLease> next_;
  std::optional<Renewal> renewal_;  // that a look has yet to confirm
  TimePoint renew_at_;
  std::uint64_t term_;  // etcd's, as it was seen last
};

// The last change of the leader of that epoch: its key goes, and `synced` says that no right of it
// is left. Whenever it arrives, a later leader is not touched.
etcd::Transaction resignation(const ContestKeys& keys, etcd::Revision epoch, std::string synced);

// What makes a change in etcd one of this leader's: it happens only while the key "leader" is the
// one that it has won, and only after its change before. The second half is for changes of which
// nobody knows whether they have happened: they are asked for once more, word for word, and
// whichever comes first is the only one. Without it a change that was held up somewhere could undo
// a later one.
class Fence {
 public:
  // In the transaction with which it wins: the first turn is its own.
  static etcd::Put first_turn(const ContestKeys& keys) { return {keys.turn(), "0"}; }

  Fence() = default;
  explicit Fence(etcd::Revision epoch) : epoch_(epoch), turn_changed_(epoch) {}

  etcd::Revision epoch() const { return epoch_; }
  // The next change. Only when the one before was judged to be done.
  etcd::Transaction guard(const ContestKeys& keys, std::vector<etcd::Operation> operations);

  enum class Verdict { done, lost };
  // What became of the change that was made last. Lost: somebody else leads.
  Verdict judge(const etcd::Decided& decided);

 private:
  std::string turn_text() const;

  etcd::Revision epoch_ = 0;
  etcd::Revision turn_changed_ = 0;  // by its last change
  std::uint64_t turn_ = 0;           // how many it has begun
};

}  // namespace cpprun
