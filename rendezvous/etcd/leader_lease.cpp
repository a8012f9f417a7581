// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/leader_lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "rendezvous/etcd/bounds.h"

namespace cpprun {

TimePoint GrantedLease::until() const {
  return confirmed + ttl - bounds::election_margin(ttl);
}

LeaderLease::LeaderLease(const GrantedLease& lease) : lease_(lease), term_(lease.term) {
  plan_renewal(lease.confirmed);
}

bool LeaderLease::owns(etcd::LeaseId lease) const {
  return lease == lease_.id || (next_ && lease == next_->id);
}

void LeaderLease::plan_renewal(TimePoint sent) {
  renew_at_ = sent + bounds::election_renewal_pause(lease_.ttl);
}

void LeaderLease::renewal_failed(TimePoint again) {
  renewal_.reset();
  renew_at_ = again;
}

void LeaderLease::renewed(TimePoint sent, Duration ttl) {
  renewal_ = Renewal{sent, ttl};
  plan_renewal(sent);
}

bool LeaderLease::seen(std::uint64_t term) {
  term_ = term;
  const auto renewal = std::exchange(renewal_, std::nullopt);
  if (!renewal) return false;
  GrantedLease& lease = next_ ? *next_ : lease_;
  lease.confirmed = std::max(lease.confirmed, renewal->sent);
  lease.ttl = std::min(lease.ttl, renewal->ttl);
  return !next_;
}

void LeaderLease::take_next(const GrantedLease& lease) {
  assert(!next_ && lease.confirmed >= lease_.confirmed);
  next_ = lease;
  renewal_.reset();  // it belonged to the old lease
  plan_renewal(lease.confirmed);
}

etcd::LeaseId LeaderLease::moved() {
  assert(next_);
  const auto old = lease_.id;
  lease_ = *next_;
  next_.reset();
  return old;
}

void LeaderLease::lose_next() {
  next_.reset();
  renewal_.reset();
}

etcd::Transaction resignation(const ElectionKeys& keys, etcd::Revision epoch, std::string synced) {
  return {.compares = {{keys.leader(), etcd::Compare::Target::created, epoch}},
          .success = {etcd::Delete{keys.leader()}, etcd::Put{keys.synced(), std::move(synced)}}};
}

std::string FencingToken::turn_text() const {
  return fmt::format("{}/{}", epoch_, turn_);
}

etcd::Transaction FencingToken::guard(const ElectionKeys& keys,
                                      std::vector<etcd::Operation> operations) {
  using Target = etcd::Compare::Target;
  ++turn_;
  operations.push_back(etcd::Put{keys.turn(), turn_text()});
  return {.compares = {{keys.leader(), Target::created, epoch_},
                       {keys.turn(), Target::changed, turn_changed_}},
          .success = std::move(operations),
          .otherwise = {etcd::Read{keys.leader()}, etcd::Read{keys.turn()}}};
}

FencingToken::Verdict FencingToken::judge(const etcd::Decided& decided) {
  if (decided.succeeded) {
    turn_changed_ = decided.header.revision;
    return Verdict::done;
  }
  // It was applied by the first attempt.
  const auto& turn = decided.outcomes[1].pairs;
  if (!turn.empty() && turn.front().value == turn_text()) {
    turn_changed_ = turn.front().changed;
    return Verdict::done;
  }
  return Verdict::lost;
}

}  // namespace cpprun
