// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An etcd of several members as a value, in simulated time: keys, revisions, leases that end late,
// transactions, members that stop, crash or are cut off, and a leader of its own that is chosen
// anew then. It has the two faults of 3.4.23 (its issue 15247): one that led, was stopped and goes
// on renews leases that its successor knows nothing of, and ends leases that were renewed there.
//
// It has no network: whoever asks is a member already. "No answer yet" is an answer.

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

  // What has come due by then: elections, and leases that end. Before anything else of that moment.
  void advance(TimePoint now);
  // Nothing: it does not answer, or not yet; it may be asked again.
  std::optional<etcd::Heard> ask(TimePoint now, int member, const etcd::Request& request);

  // What the last question has truly done; nothing: it was no transaction, or nothing was decided.
  const std::optional<etcd::Decided>& decided() const { return decided_; }

  // --- faults ------------------------------------------------------------------------------------
  void stop(TimePoint now, int member);
  void go_on(TimePoint now, int member);
  void cut(TimePoint now, int member, bool is_cut);
  void crash(TimePoint now, int member);
  void begin_again(TimePoint now, int member);
  void fill(bool is_full) { is_full_ = is_full; }
  // A new leader is chosen though nothing has happened.
  void elect_another(TimePoint now);

  bool is_crashed(int member) const { return of(member).is_crashed; }
  int members() const { return options_.members; }
  std::optional<int> leader() const { return leader_; }
  std::uint64_t term() const { return term_; }
  etcd::Revision revision() const { return data_.revision; }
  std::size_t leases() const { return data_.leases.size(); }
  const etcd::KeyValue* find(const std::string& key) const;
  // Removes what stands there, as a person would with etcdctl.
  void remove(const std::string& key) { erase(key, ++data_.revision); }

  // What an etcd that is restored from a snapshot goes on with.
  struct Data {
    etcd::Revision revision = 1;
    std::map<std::string, etcd::KeyValue> pairs;
    struct Lease {
      Duration ttl{};
      TimePoint ends{};  // as the one that leads counts
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
    // It has led in that term, and does not know yet that it does not any more: until then.
    std::optional<TimePoint> stale_until = {};
    std::map<etcd::LeaseId, TimePoint> stale_ends = {};  // its leases, as it counts
    bool is_to_revoke = false;                           // what it takes for ended
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
  Duration look_pause_;  // between two looks at leases that have ended
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
