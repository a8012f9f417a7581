// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/tenure.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace cpprun {

Tenure::Tenure(const GrantedLease& lease) : lease_(lease), term_(lease.term) {
  plan_renewal(lease.confirmed);
}

bool Tenure::owns(etcd::LeaseId lease) const {
  return lease == lease_.id || (next_ && lease == next_->id);
}

void Tenure::plan_renewal(TimePoint sent) {
  renew_at_ = sent + bounds::contest_renewal_pause(lease_.ttl);
}

void Tenure::renewal_failed(TimePoint now) {
  renewal_.reset();
  renew_at_ = now;
}

void Tenure::renewed(TimePoint sent, Duration ttl, std::uint64_t term) {
  renewal_ = Renewal{sent, ttl, term};
  plan_renewal(sent);
}

bool Tenure::read(TimePoint now, std::uint64_t term) {
  term_ = term;
  const auto renewal = std::exchange(renewal_, std::nullopt);
  if (!renewal) return false;
  if (renewal->term != term) {
    // The member that took it had not heard yet of whom etcd has chosen, or was that one's
    // predecessor. Others are to be asked, without haste.
    renew_at_ = now + bounds::contest_renewal_pause(lease_.ttl) / 4;
    return false;
  }
  GrantedLease& lease = next_ ? *next_ : lease_;
  lease.confirmed = std::max(lease.confirmed, renewal->sent);
  lease.ttl = std::min(lease.ttl, renewal->ttl);
  return !next_;
}

void Tenure::take_next(const GrantedLease& lease) {
  assert(!next_ && lease.confirmed >= lease_.confirmed);
  next_ = lease;
  renewal_.reset();  // of the other one
  plan_renewal(lease.confirmed);
}

etcd::LeaseId Tenure::moved() {
  assert(next_);
  const auto old = lease_.id;
  lease_ = *next_;
  next_.reset();
  return old;
}

void Tenure::lose_next() {
  next_.reset();
  renewal_.reset();
}

}  // namespace cpprun
