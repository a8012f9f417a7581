// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A model of an etcd with several members, in simulated time: keys, revisions, leases that end
// late, transactions, members that stop, crash or are cut off, and elections of its own leader. It
// has both faults of 3.4.23 (issue 15247): a former leader that was stopped and resumes renews
// leases that its successor does not know, and revokes leases that were renewed there.
//
// It has no network: a client is always at a member. "No response yet" is a possible response.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/etcd_request.h"
#include "tests/sim/random.h"

namespace cpprun::test {

class EtcdModel {
 public:
  struct Options {
    int members = 3;
    Duration election = std::chrono::seconds(1);
    std::int64_t ttl_seconds_min = 2;
    bool has_issue_15247 = true;
  };
  EtcdModel(Options options, std::uint64_t seed);

  // Handles everything that is due: elections and expired leases. Called first at each point in
  // time.
  void advance(TimePoint now);
  // Nothing: no response, or not yet; the client may ask again.
  std::optional<etcd::Heard> ask(TimePoint now, int member, const etcd::Request& request);

  // What the last request has really done; nothing: it was no transaction, or it was not decided.
  const std::optional<etcd::Decided>& decided() const { return decided_; }

  // --- faults ------------------------------------------------------------------------------------
  void stop(TimePoint now, int member);
  void go_on(TimePoint now, int member);
  void cut(TimePoint now, int member, bool is_cut);
  void crash(TimePoint now, int member);
  void begin_again(TimePoint now, int member);
  void fill(bool is_full) { is_full_ = is_full; }
  // Elects a new leader without a reason.
  void elect_another(TimePoint now);

  bool is_crashed(int member) const { return of(member).is_crashed; }
  int members() const { return options_.members; }
  std::optional<int> leader() const { return leader_; }
  std::uint64_t term() const { return term_; }
  etcd::Revision revision() const { return data_.revision; }
  std::size_t leases() const { return data_.leases.size(); }
  const etcd::KeyValue* find(const std::string& key) const;
  // Removes a key, as etcdctl would.
  void remove(const std::string& key) { erase(key, ++data_.revision); }

  // The data that an etcd restored from a snapshot resumes with.
  struct Data {
    etcd::Revision revision = 1;
    std::map<std::string, etcd::KeyValue> pairs;
    struct Lease {
      Duration ttl{};
      TimePoint ends{};  // by the clock of the leader
    };
    std::map<etcd::LeaseId, Lease> leases;
  };
  const Data& snapshot() const { return data_; }
  void restore(Data data) { data_ = std::move(data); }

 private:
  struct Member {
    bool is_stopped = false;
    bool is_cut = false;
    bool is_crashed = false;
    std::uint64_t applied_term = 1;
    // A former leader that does not know its successor yet: until then.
    std::optional<TimePoint> stale_until = {};
    std::map<etcd::LeaseId, TimePoint> stale_ends = {};  // its leases, by its own count
    bool is_to_revoke = false;                           // the leases that it considers expired
    double pace = 1;                                     // of its clock
  };
  Member& of(int member) { return members_[static_cast<std::size_t>(member)]; }
  const Member& of(int member) const { return members_[static_cast<std::size_t>(member)]; }
  bool is_connected(int member) const {
    const Member& each = of(member);
    return !each.is_stopped && !each.is_cut && !each.is_crashed;
  }
  bool has_quorum() const;
  bool is_led() const { return leader_ && is_connected(*leader_) && has_quorum(); }
  void lose_leader(TimePoint now);
  void elect(TimePoint now);
  void end_leases(TimePoint now);
  void go_stale(TimePoint now);
  bool is_stale(TimePoint now, int member) const;
  TimePoint counted(TimePoint now, Duration time) const;

  etcd::Header header(int member) const;
  std::optional<etcd::Heard> renew(TimePoint now, int member, etcd::LeaseId lease);
  etcd::Heard decide(TimePoint now, int member, const etcd::Request& request);
  etcd::Heard decide(int member, const etcd::Transaction& transaction);
  bool is_true(const etcd::Compare& compare) const;
  etcd::Outcome carry_out(const etcd::Operation& operation, etcd::Revision revision);
  void revoke(etcd::LeaseId lease);
  void erase(const std::string& key, etcd::Revision revision);

  Options options_;
  sim::Random chance_;
  Duration look_pause_;  // between two checks for expired leases
  Data data_;
  std::vector<Member> members_;
  std::optional<int> leader_ = 0;
  std::uint64_t term_ = 1;
  std::optional<TimePoint> election_at_;
  TimePoint next_look_{};
  bool is_full_ = false;
  std::optional<etcd::Decided> decided_;
};

}  // namespace cpprun::test
