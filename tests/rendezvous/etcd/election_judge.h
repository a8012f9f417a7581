// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Sees what truly happens to the elections of a simulated world, and says which promise was broken
// first:
//
//  - nobody wins before the right of whoever led is over by that one's own clock;
//  - epochs grow;
//  - what a leader changes it changes before the next one has won;
//  - the next one finds every record that was said to be written, or a later wish of that name, and
//    who was synced before it won;
//  - who leads is told that it does not by the time it has been told.

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

  // Program `who` was told that; `until` is the true moment that its right ends at.
  void told(TimePoint now, int who, const election::Action& action, TimePoint until);
  // It wishes for that.
  void wishes(int who, const election::Event& event);
  // It is gone, or stopped: what it believes harms nobody any more, or not now.
  void ended(int who);
  // It is about to hear something, or its timer to run, and it was not stopped before.
  void awake(TimePoint now, int who);
  // A request of its has been decided. Epochs are etcd's own, so what was won is known here first.
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
  // What may stand there: what was said to be written, and what has been wished for since.
  struct Kept {
    std::vector<std::pair<std::uint64_t, std::optional<std::string>>> wishes;
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
  Names complete_;                       // who has everything
  std::optional<Names> may_have_begun_;  // who has taken over, and was not told yet
  std::vector<Names> may_be_found_;      // by whoever has won last
  etcd::Revision epoch_ = 0;             // the last that was won
  int winner_ = -1;                      // by whom
  TimePoint won_at_{};                   // and when
  int leaders_ = 0;                      // were told so
  etcd::Revision told_epoch_ = 0;
};

}  // namespace cpprun::test
