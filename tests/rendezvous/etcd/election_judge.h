// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Knows the true state of the elections of a simulated world, and reports the first broken promise:
//
//  - no program wins before the previous leader's lease has ended by the leader's own clock;
//  - epochs grow;
//  - a leader changes nothing after the next one has won;
//  - the next leader finds every record that was reported as written, or a later change of it, and
//    the list of synced programs from before it won;
//  - a leader learns that it is deposed no later than its lease ends.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/etcd/election_events.h"
#include "rendezvous/etcd/election_view.h"
#include "tests/rendezvous/etcd/etcd_model.h"

namespace cpprun::test {

class ElectionJudge {
 public:
  explicit ElectionJudge(ElectionKeys keys) : keys_(std::move(keys)) {}

  // Program `who` has received `action`; `until` is the true end of its lease.
  void received(TimePoint now, int who, const election::Action& action, TimePoint until);
  // Program `who` has issued the command `event`.
  void commands(int who, const election::Event& event);
  // `who` has been killed or stopped: its beliefs do no harm, at least for now.
  void ended(int who);
  // `who` is about to handle an event or a timer, and was not stopped before.
  void awake(TimePoint now, int who);
  // A request of `who` has been decided. Epochs come from etcd, so a win is known here first.
  void decided(TimePoint now, int who, const etcd::Transaction& transaction,
               const etcd::Decided& decided);

  const std::string& objection() const { return objection_; }
  std::optional<int> leader(TimePoint now) const;
  void is_called(int who, std::string name) { names_[who] = std::move(name); }
  etcd::Revision epoch() const { return epoch_; }
  int leaders() const { return leaders_; }

 private:
  struct Leading {
    TimePoint until{};
    etcd::Revision epoch = 0;
  };
  // The possible values of a record: the last written one and all later commands.
  struct Kept {
    std::vector<std::pair<std::uint64_t, std::optional<std::string>>> commands;
  };
  void object(TimePoint now, std::string what);
  void check_found(TimePoint now, const election::Found& found);
  void check_won(TimePoint now, int who);
  void check_right(TimePoint now, int who);

  ElectionKeys keys_;
  std::map<int, std::string> names_;
  std::string objection_;
  std::map<int, Leading> leading_;
  std::map<std::string, Kept> kept_;  // by name
  using Names = std::vector<std::string>;
  Names complete_;                       // the programs that are in sync
  std::optional<Names> may_have_begun_;  // a successor that has taken over and does not know it yet
  std::vector<Names> may_be_found_;      // the lists that the last winner may find
  etcd::Revision epoch_ = 0;             // of the last winner
  int winner_ = -1;                      // the last winner
  TimePoint won_at_{};                   // when it won
  int leaders_ = 0;                      // number of wins that were reported
  etcd::Revision received_epoch_ = 0;
};

}  // namespace cpprun::test
