// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What became of a round: what failed first (Failures), why it broke (RoundEnd), and the history of
// all rounds (RoundHistory).

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

// The cause of a worker that ended with 0 while others still communicated with it. Its node says so
// as of a failure that is a consequence, so that a coordinator that does not know it takes it for
// the root only where all others are consequences too. The status of that failure is the code that
// the job ends with.
inline constexpr std::string_view left_early = "left_early";

// What failed in one round, and what failed first. Everybody's reports are kept until everybody has
// drained, because the order in which they arrive says little: a peer's lost connection may be
// reported before the death that broke it, and a machine that lost its power reports nothing at
// all.
//
// The root is, in this order:
//   1. anything else before a known consequence: what can only follow from a peer's end, or from
//      a signal of ours, is never the first cause while there is another;
//   2. what was noticed before its node was told to drain: clocks of two nodes are known to a few
//      milliseconds only, and this is certain. A late end that is no consequence still comes before
//      all that are: it takes longer to die than to notice that a peer does;
//   3. the earliest, by the coordinator's clock. A lost node failed when it was last heard or its
//      link broke, and so comes before those who missed it;
//   4. a lost node before a worker, then the lower node, what it noticed first, and the lower rank:
//      the same answer in every run.
// Where all of them only lost a peer, and a worker had ended with 0 before the first of them did,
// that worker is the root (left_early): its data was used up, or it never joined the others.
//
// How a node's clock stands to the coordinator's is known better with every heartbeat; so that two
// failures of one node stay in the order in which it noticed them, both are placed by what is known
// when the second is heard of.
class Failures {
 public:
  struct Entry {
    link::Failure failure;
    TimePoint at{};     // by the coordinator's clock
    bool lost = false;  // its whole node was lost; nothing was said of this worker
    std::string what;   // "rank 3 on beta failed"
    // What `at` was reckoned from: by the clock of its node, and when the coordinator heard of it.
    link::AgentTime noticed = {};  // zero: the node does not say
    TimePoint heard = {};
    bool late = false;  // its node noticed it after it had been told to drain
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  Failures() = default;
  // As they were kept: sorted, the first of so many that came.
  Failures(std::vector<Entry> entries, std::size_t count)
      : entries_(std::move(entries)), count_(count) {}
  const std::vector<Entry>& entries() const { return entries_; }

  // A worker counts once, however often its node reports it.
  void add(Entry entry);
  // A worker ended with 0 by itself; the first of them is kept. It is no failure of its own.
  void add_leaver(Entry leaver);
  // That node's moments are known better now.
  void realign(GroupRank node, const std::function<std::optional<TimePoint>(link::AgentTime)>& at);
  // Forgets workers that ended badly after that; a lost node stays.
  void drop_ends_after(TimePoint moment);
  void clear() { *this = {}; }
  const std::optional<Entry>& leaver() const { return leaver_; }
  friend bool operator==(const Failures&, const Failures&) = default;

  bool empty() const { return entries_.empty(); }
  std::size_t count() const { return count_; }
  // The first cause; nothing where nothing failed.
  const Entry* root() const;
  // Whether every one of them is known to follow from another end.
  bool all_follow() const { return !empty() && entries_.front().failure.consequence; }
  // All others, in order of time: some of them, and how many there are.
  std::vector<link::Consequence> consequences() const;
  std::size_t consequence_count() const { return empty() ? 0 : count_ - (blamed_ ? 0 : 1); }

 private:
  void judge_leaver();

  // Invariant: entries_ is sorted by the rules above, and holds the first of the count_ that came.
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  std::optional<Entry> leaver_;
  std::optional<Entry> blamed_;  // that one, where it is the root
};

// Why a round breaks, as far as is known while its nodes still end their workers: what failed, who
// was asked to stop, or that only the membership changes. When nobody is left it says how a job
// without another round ends.
struct RoundEnd {
  std::string reason = {};  // completes "ending the workers: …"
  TimePoint at{};           // when the nodes were told, or the first was asked
  Failures failures = {};   // of the round, everybody's
  // A node leaves that the job cannot do without: it was asked to stop, or gave up (no signal).
  std::optional<link::Leave> stop = {};
  std::string why_no_other = {};  // who that is and why, where there is a `stop`
  bool change = false;            // who is here has changed, nothing failed yet
  bool ordered = false;           // or somebody has asked for that
  link::Reached reached = {};     // the farthest of its workers, as far as their beats say

  // The coordinator itself asked for the end, so later bad ends follow from that.
  bool polite() const { return change || stop; }
  void come_to(const link::Reached& far);
  // A node was asked to stop at that time, perhaps before we heard of it: ends that were reported
  // as later follow from it. `why` becomes the reason if nothing else is left.
  void polite_since(TimePoint asked, const std::string& why);
  friend bool operator==(const RoundEnd&, const RoundEnd&) = default;
};

// The end of a job whose last round broke like that. Being asked to stop, and dragging others
// along, is no failure; a failure before the stop still is.
link::Finish finish_of(const RoundEnd& round_end);

struct RoundRecord {
  RoundNumber round;
  int restart = 0;  // restarts used when it was sealed
  TimePoint began{};
  std::optional<TimePoint> ended = {};  // nothing: it runs, or drains
  std::string reason = {};              // why its workers were ended; empty where they were not
  std::optional<link::Failure> root = {};
  // What followed from it: a few, and how many there were.
  std::vector<link::Consequence> consequences = {};
  std::size_t consequence_count = 0;
  friend bool operator==(const RoundRecord&, const RoundRecord&) = default;
};

// What a round that breaks looks like by now.
void tell_end(RoundRecord& record, const RoundEnd& end);

// What became of every round of a job, for whoever looks at it while it runs: which failure broke
// it, and what followed. Bounded, for a job may restart for weeks: the first rounds, which tell how
// it began, and the last; and counts of all. Decides nothing.
class RoundHistory {
 public:
  // All of it, for whoever keeps it longer than its coordinator lives.
  struct Kept {
    std::vector<RoundRecord> first = {};
    std::deque<RoundRecord> last = {};
    std::size_t left_out = 0;
    std::map<std::string, std::size_t> failures = {};
    std::map<std::string, std::size_t> restarts = {};
    friend bool operator==(const Kept&, const Kept&) = default;
  };
  RoundHistory() = default;
  explicit RoundHistory(Kept kept) : kept_(std::move(kept)) {}
  const Kept& kept() const { return kept_; }

  void sealed(TimePoint now, RoundNumber round, int restart);
  // The round that was sealed last is over. `restarted`: that has cost a restart.
  void closed(TimePoint now, const RoundEnd& end, bool restarted);

  // What failed first in that round; nothing where nothing did, or where it is not kept.
  const link::Failure* root_of(RoundNumber round) const;
  // In the order of time, the one that runs among them.
  std::vector<RoundRecord> list() const;
  // Those between the first and the last that are not kept.
  std::size_t left_out() const { return kept_.left_out; }
  // Of all rounds: first failures, and restarts, by the id of their cause; "unknown" where nothing
  // is known of it, "other" for what exceeds bounds::causes_counted_max.
  const std::map<std::string, std::size_t>& failures() const { return kept_.failures; }
  const std::map<std::string, std::size_t>& restarts() const { return kept_.restarts; }

 private:
  Kept kept_;
};

}  // namespace cpprun
