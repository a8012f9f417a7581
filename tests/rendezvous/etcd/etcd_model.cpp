// SPDX-License-Identifier: BSD-3-Clause
#include "tests/rendezvous/etcd/etcd_model.h"

#include <algorithm>
#include <utility>

#include "proto/state_machine.h"

namespace cpprun::test {

using namespace std::chrono_literals;
using etcd::Failure;
using Kind = Failure::Kind;

namespace {

etcd::Heard failed(Kind kind, std::string said) {
  return tl::unexpected(Failure{kind, std::move(said)});
}

bool only_reads(const etcd::Transaction& transaction) {
  const auto is_read = [](const etcd::Operation& each) {
    return std::holds_alternative<etcd::Read>(each);
  };
  return std::ranges::all_of(transaction.success, is_read) &&
         std::ranges::all_of(transaction.otherwise, is_read);
}

// Whether etcd rejects this request when it is full.
bool needs_room(const etcd::Request& request) {
  if (std::holds_alternative<etcd::Grant>(request)) return true;
  const auto* const transaction = std::get_if<etcd::Transaction>(&request);
  return transaction != nullptr &&
         std::ranges::any_of(transaction->success, [](const etcd::Operation& each) {
           return std::holds_alternative<etcd::Put>(each);
         });
}

}  // namespace

EtcdModel::EtcdModel(Options options, std::uint64_t seed)
    : options_(options),
      chance_(seed, 0xE7CD),
      members_(static_cast<std::size_t>(options.members)) {
  // etcd looks for expired leases twice a second; a model that is never late is the harder case.
  look_pause_ = chance_.chance(0.5) ? 500ms : 5ms;
  // Clocks are wrong by up to 2 %.
  for (Member& each : members_) each.pace = 1 + 0.001 * chance_.between(-20, 20);
}

const etcd::KeyValue* EtcdModel::find(const std::string& key) const {
  const auto found = data_.pairs.find(key);
  return found == data_.pairs.end() ? nullptr : &found->second;
}

// --- members -------------------------------------------------------------------------------------

bool EtcdModel::has_quorum() const {
  int connected = 0;
  for (int each = 0; each < members(); ++each) connected += is_connected(each) ? 1 : 0;
  return connected > members() / 2;
}

TimePoint EtcdModel::counted(TimePoint now, Duration time) const {
  const double pace = leader_ ? of(*leader_).pace : 1;
  return now + std::chrono::duration_cast<Duration>(time / pace);
}

void EtcdModel::stop(TimePoint now, int member) {
  of(member).is_stopped = true;
  if (leader_ == member) lose_leader(now);
}

void EtcdModel::go_on(TimePoint now, int member) {
  Member& each = of(member);
  if (!std::exchange(each.is_stopped, false)) return;
  // It soon receives messages of the others.
  if (each.stale_until) {
    each.stale_until = now + chance_.up_to(150ms);
    each.is_to_revoke = options_.has_issue_15247 && chance_.chance(0.5);
  }
}

void EtcdModel::cut(TimePoint now, int member, bool is_cut) {
  of(member).is_cut = is_cut;
  if (is_cut && leader_ == member) lose_leader(now);
}

void EtcdModel::crash(TimePoint now, int member) {
  of(member).is_crashed = true;
  of(member).stale_until.reset();
  if (leader_ == member) lose_leader(now);
}

void EtcdModel::begin_again(TimePoint, int member) {
  of(member).is_crashed = false;
}

void EtcdModel::elect_another(TimePoint now) {
  if (is_led()) elect(now);
}

// The old leader does not know it: until its election timeout if it is cut off, until it resumes if
// it is stopped.
void EtcdModel::lose_leader(TimePoint now) {
  Member& old = of(*leader_);
  if (!old.is_crashed) {
    old.stale_until = now + 2 * options_.election;
    old.stale_ends.clear();
    for (const auto& [id, lease] : data_.leases) old.stale_ends[id] = lease.ends;
  }
  leader_.reset();
  election_at_.reset();
}

bool EtcdModel::is_stale(TimePoint now, int member) const {
  const Member& each = of(member);
  return each.stale_until && now < *each.stale_until && !each.is_stopped && !each.is_crashed;
}

void EtcdModel::elect(TimePoint now) {
  std::vector<int> able;
  for (int each = 0; each < members(); ++each) {
    if (is_connected(each) && !is_stale(now, each)) able.push_back(each);
  }
  if (able.empty()) return;
  leader_ = able[static_cast<std::size_t>(chance_.next() % able.size())];
  election_at_.reset();
  ++term_;
  of(*leader_).applied_term = term_;
  of(*leader_).stale_until.reset();
  // The others apply the new term at the latest when they must.
  for (int each : able) {
    if (chance_.chance(0.5)) of(each).applied_term = term_;
  }
  for (auto& [id, lease] : data_.leases) lease.ends = counted(now, options_.election + lease.ttl);
  next_look_ = now + look_pause_;
}

void EtcdModel::go_stale(TimePoint now) {
  for (Member& each : members_) {
    if (!each.stale_until || each.is_stopped) continue;
    if (std::exchange(each.is_to_revoke, false) && is_led()) {
      for (const auto& [id, ends] : each.stale_ends) {
        if (ends <= now) revoke(id);
      }
    }
    if (*each.stale_until <= now) each.stale_until.reset();
  }
}

void EtcdModel::end_leases(TimePoint now) {
  if (!is_led() || now < next_look_) return;
  next_look_ = now + look_pause_;
  std::vector<etcd::LeaseId> ended;
  for (const auto& [id, lease] : data_.leases) {
    if (lease.ends <= now) ended.push_back(id);
  }
  for (const auto id : ended) revoke(id);
}

void EtcdModel::advance(TimePoint now) {
  go_stale(now);
  if (leader_ && !is_led()) lose_leader(now);
  if (!leader_ && has_quorum()) {
    if (!election_at_) {
      election_at_ = now + chance_.between(options_.election, 2 * options_.election);
    }
    if (*election_at_ <= now) elect(now);
  }
  if (!has_quorum()) election_at_.reset();
  end_leases(now);
}

// --- requests ------------------------------------------------------------------------------------

etcd::Header EtcdModel::header(int member) const {
  return {.cluster = 1,
          .member = static_cast<std::uint64_t>(member) + 1,
          .revision = data_.revision,
          .term = of(member).applied_term};
}

std::optional<etcd::Heard> EtcdModel::ask(TimePoint now, int member, const etcd::Request& request) {
  advance(now);
  decided_.reset();
  if (of(member).is_stopped || of(member).is_crashed) return std::nullopt;
  if (const auto* const keep = std::get_if<etcd::KeepAlive>(&request)) {
    return renew(now, member, keep->lease);
  }
  if (!is_led() || of(member).is_cut || is_stale(now, member)) return std::nullopt;
  // A member that responds has applied the current term.
  of(member).applied_term = term_;
  return decide(now, member, request);
}

std::optional<etcd::Heard> EtcdModel::renew(TimePoint now, int member, etcd::LeaseId lease) {
  const auto reply_header = header(member);
  const auto kept = [&](Duration ttl) {
    return etcd::KeptAlive{reply_header, lease,
                           std::chrono::duration_cast<std::chrono::seconds>(ttl).count()};
  };
  if (is_stale(now, member)) {
    // A stale leader renews by itself, without a quorum.
    const auto known = of(member).stale_ends.find(lease);
    const auto still = data_.leases.find(lease);
    if (known == of(member).stale_ends.end() || known->second <= now) return std::nullopt;
    if (still == data_.leases.end()) return std::nullopt;
    known->second = now + still->second.ttl;
    return kept(still->second.ttl);
  }
  if (!is_led() || of(member).is_cut) return std::nullopt;
  const auto found = data_.leases.find(lease);
  if (found == data_.leases.end()) return kept(Duration{});
  // The lease is being revoked, and the client waits for that.
  if (found->second.ends <= now) return std::nullopt;
  found->second.ends = counted(now, found->second.ttl);
  return kept(found->second.ttl);
}

etcd::Heard EtcdModel::decide(TimePoint now, int member, const etcd::Request& request) {
  // The change that finds etcd full is sometimes executed all the same.
  const bool is_too_much = is_full_ && needs_room(request);
  const auto too_much = failed(Kind::no_space, "etcdserver: mvcc: database space exceeded");
  if (is_too_much && chance_.chance(0.7)) return too_much;
  auto answer = std::visit(
      Overloaded{
          [&](const etcd::Grant& grant) -> etcd::Heard {
            if (data_.leases.contains(grant.lease)) {
              return failed(Kind::lease_exists, "etcdserver: lease already exists");
            }
            const auto seconds = std::max(grant.ttl_seconds, options_.ttl_seconds_min);
            const Duration ttl = std::chrono::seconds(seconds);
            data_.leases[grant.lease] = {ttl, counted(now, ttl)};
            return etcd::Granted{header(member), grant.lease, seconds};
          },
          [&](const etcd::Revoke& gone) -> etcd::Heard {
            if (!data_.leases.contains(gone.lease)) {
              return failed(Kind::no_such_lease, "etcdserver: requested lease not found");
            }
            revoke(gone.lease);
            return etcd::Revoked{header(member)};
          },
          [&](const etcd::Transaction& transaction) { return decide(member, transaction); },
          [&](const etcd::GetAlarms&) -> etcd::Heard {
            return etcd::Alarms{.has_no_space = is_full_};
          },
          [&](const auto&) { return failed(Kind::rejected, "etcdserver: not of this model"); },
      },
      request);
  return is_too_much ? too_much : answer;
}

etcd::Heard EtcdModel::decide(int member, const etcd::Transaction& transaction) {
  const bool succeeds =
      std::ranges::all_of(transaction.compares, [this](const auto& each) { return is_true(each); });
  const auto& operations = succeeds ? transaction.success : transaction.otherwise;
  for (const auto& each : operations) {
    const auto* const put = std::get_if<etcd::Put>(&each);
    if (put != nullptr && put->lease != etcd::no_lease && !data_.leases.contains(put->lease)) {
      return failed(Kind::no_such_lease, "etcdserver: requested lease not found");
    }
  }
  const auto revision = only_reads(transaction) || operations.empty() ? data_.revision
                        : succeeds                                    ? ++data_.revision
                                                                      : data_.revision;
  etcd::Decided decided{.succeeded = succeeds};
  for (const auto& each : operations) decided.outcomes.push_back(carry_out(each, revision));
  decided.header = header(member);
  decided_ = decided;
  return decided;
}

bool EtcdModel::is_true(const etcd::Compare& compare) const {
  const auto* const pair = find(compare.key);
  switch (compare.target) {
    case etcd::Compare::Target::created:
      return (pair == nullptr ? 0 : pair->created) == compare.revision;
    case etcd::Compare::Target::changed:
      return (pair == nullptr ? 0 : pair->changed) == compare.revision;
    case etcd::Compare::Target::value:
      return pair != nullptr && pair->value == compare.value;
  }
  return false;
}

etcd::Outcome EtcdModel::carry_out(const etcd::Operation& operation, etcd::Revision revision) {
  return std::visit(
      Overloaded{
          [&](const etcd::Put& put) {
            auto& pair = data_.pairs[put.key];
            if (pair.created == 0) pair = {.key = put.key, .created = revision};
            pair.value = put.value;
            pair.changed = revision;
            pair.lease = put.lease;
            return etcd::Outcome{};
          },
          [&](const etcd::Read& read) {
            etcd::Outcome outcome;
            for (auto at = data_.pairs.lower_bound(read.key); at != data_.pairs.end(); ++at) {
              if (read.end.empty() ? at->first != read.key : at->first >= read.end) break;
              outcome.has_more =
                  read.limit > 0 && outcome.pairs.size() == static_cast<std::size_t>(read.limit);
              if (outcome.has_more) break;
              outcome.pairs.push_back(at->second);
            }
            return outcome;
          },
          [&](const etcd::Delete& gone) {
            erase(gone.key, revision);
            return etcd::Outcome{};
          },
      },
      operation);
}

void EtcdModel::erase(const std::string& key, etcd::Revision) {
  data_.pairs.erase(key);
}

void EtcdModel::revoke(etcd::LeaseId lease) {
  if (data_.leases.erase(lease) == 0) return;
  const auto before = data_.pairs.size();
  std::erase_if(data_.pairs, [lease](const auto& each) { return each.second.lease == lease; });
  if (data_.pairs.size() != before) ++data_.revision;
}

}  // namespace cpprun::test
