// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the time of a job's nodes goes (proto/time_use.h). It is told how many nodes are at which
// account whenever that changes, and what became of a round: then what was booked on the way is
// moved to the account it belongs to, because a failure is known only after it has happened.
//
// Nothing is ever booked twice or left out: every node-second is booked where its node was, and is
// moved at most as often as there is something to move.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/time_use.h"

namespace cpprun {

class TimeLedger {
 public:
  using Nodes = std::array<std::size_t, account_count>;

  // All of it, for whoever keeps it longer than its coordinator lives. In whole microseconds, so
  // that what is booked bit by bit adds up to the whole.
  struct Kept {
    std::optional<NodeDuration> began = {};
    std::optional<NodeDuration> until = {};  // so far it is booked
    Nodes nodes{};
    NodeTime kept{};                                    // training and standing by
    std::vector<LostTime> lost = {{.cause = "start"}};  // all other accounts
    std::size_t current = 0;                            // of lost: what the present follows from
    std::optional<NodeTime> broken = {};                // since the round broke
    std::size_t nodes_at_break = 0;                     // that ran then
    NodeDuration round_training{};                      // of the round that was sealed last
    NodeDuration round_starting{};
    std::vector<NodeDuration> unsaved = {};
    bool trains = false;
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  TimeLedger() = default;
  explicit TimeLedger(Kept kept) : now_(std::move(kept)) {}
  const Kept& kept() const { return now_; }

  // From here on so many nodes are at each account; until now they were where they were before.
  void place(TimePoint now, const Nodes& nodes);

  // A round begins. Until its workers have spoken its time is that of its start.
  void sealed(TimePoint now);
  // A worker has spoken to the store of the round.
  void trains() { now_.trains = true; }
  bool training() const { return now_.trains; }
  // The round was told to end: what follows belongs to a cause that is not known yet.
  void broken(TimePoint now);
  // A node has ended its workers, which had gone on for so long since their last checkpoint; 0
  // where they do not say.
  void unsaved(Duration time);

  struct Cause {
    std::string id;
    std::string host = {};
    // Before the word that ended the round: so long its nodes went on in vain.
    Duration unnoticed{};
    bool failed = true;  // what was trained since a checkpoint is lost; not so where nobody failed
  };
  // Nobody of the broken round is left, and this was why.
  void settled(TimePoint now, const Cause& cause);
  // Every worker ended with 0, or some have made steps: who has never spoken to the store has
  // trained all the same.
  void has_worked(TimePoint now);

  // Until now.
  TimeUse told(TimePoint now) const;
  // The invariant that is broken, if one is.
  std::optional<std::string> check() const;

 private:
  void book(TimePoint now);
  LostTime& entry(const std::string& id, const std::string& host);
  NodeDuration take(Account from, NodeDuration most);

  Kept now_;
};

}  // namespace cpprun
