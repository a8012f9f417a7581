// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The outcome of a round: what failed first (Failures), why it broke (RoundEnd), and the history of
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
#include "proto/link/message.h"
#include "proto/rank.h"

namespace cpprun {

// The cause of a worker that exited with 0 while others still communicated with it. Its node
// reports it as a failure that is a consequence. So a coordinator that does not know this cause
// takes it for the root only if all other failures are consequences too. The status of that failure
// is the code that the job exits with.
inline constexpr std::string_view left_early = "left_early";

// What failed in one round, and what failed first. All reports are kept until all nodes have
// drained, because the order of their arrival means little: a peer's lost connection may be
// reported before the death that broke it, and a machine that lost its power reports nothing at
// all.
//
// The root is, in this order:
//   1. Any other failure before a known consequence. What can only follow from a peer's end, or
//   from
//      a signal of ours, is never the first cause while there is another.
//   2. What was noticed before its node was asked to drain. The clocks of two nodes are known only
//   to
//      a few milliseconds, while this is certain. A late end that is no consequence still comes
//      before all consequences: dying takes longer than noticing that a peer dies.
//   3. The earliest, by the coordinator's clock. A lost node failed when it was last heard or its
//      link broke, so it comes before the nodes that missed it.
//   4. A lost node before a worker, then the lower node, what that noticed first, and the lower
//      rank: the result is the same in every run.
// If the first of them only lost a peer, and a worker had exited with 0 before that, that worker is
// the root (left_early): it ran out of data, or never joined the others.
//
// A node's clock offset is known better with every heartbeat. When a second failure of a node is
// reported, both are placed by the offset known then, so they stay in the order in which the node
// noticed them.
class Failures {
 public:
  struct Entry {
    link::Failure failure;
    TimePoint at{};     // by the coordinator's clock
    bool lost = false;  // its whole node was lost; there is no report about this worker
    std::string what;   // "rank 3 on beta failed"
    // What `at` was computed from: the time by its node's clock, and when the coordinator received
    // it.
    link::AgentTime noticed = {};  // zero: not reported
    TimePoint heard = {};
    bool late = false;  // its node noticed it after the request to drain
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  Failures() = default;
  // Restores saved entries: sorted, the first of `count` reported ones.
  Failures(std::vector<Entry> entries, std::size_t count)
      : entries_(std::move(entries)), count_(count) {}
  const std::vector<Entry>& entries() const { return entries_; }

  // A worker counts once, however often its node reports it.
  void add(Entry entry);
  // A worker exited with 0 by itself; the earliest is kept. It is no failure on its own.
  void add_leaver(Entry leaver);
  // The clock offset of that node is known better now.
  void realign(GroupRank node, const std::function<std::optional<TimePoint>(link::AgentTime)>& at);
  // Removes workers that failed after that time; a lost node stays.
  void drop_ends_after(TimePoint moment);
  void clear() { *this = {}; }
  const std::optional<Entry>& leaver() const { return leaver_; }
  friend bool operator==(const Failures&, const Failures&) = default;

  bool empty() const { return entries_.empty(); }
  std::size_t count() const { return count_; }
  // The first cause; nothing if nothing failed.
  const Entry* root() const;
  // Whether all of them are known to follow from another end.
  bool all_follow() const { return !empty() && entries_.front().failure.consequence; }
  // The other failures in order of time: some of them, and how many there are.
  std::vector<link::Consequence> consequences() const;
  std::size_t consequence_count() const { return empty() ? 0 : count_ - (blamed_ ? 0 : 1); }

 private:
  void judge_leaver();

  // Invariant: entries_ is sorted by the rules above, and holds the first of the count_ that came.
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  std::optional<Entry> leaver_;
  std::optional<Entry> blamed_;  // a copy of leaver_, if that is the root
};

// Why a round breaks, as far as is known while its nodes still end their workers: what failed,
// which node was asked to stop, or that only the membership changes. When all nodes have drained,
// it determines how a job without another round ends.
struct RoundEnd {
  std::string reason = {};  // completes "stopping the workers: …"
  TimePoint at{};           // when the nodes were asked, or the first one was
  Failures failures = {};   // of all nodes in the round
  // A node leaves that the job cannot do without: it was asked to stop, or gave up (no signal).
  std::optional<link::Leave> stop = {};
  std::string why_no_other = {};  // who stops the job and why, if `stop` is set
  bool change = false;            // the membership has changed, nothing failed yet
  bool ordered = false;           // an operator has asked for the change
  link::Reached reached = {};     // the farthest of its workers, according to their heartbeats

  // The coordinator itself asked for the end, so later failures follow from that.
  bool polite() const { return change || stop; }
  void come_to(const link::Reached& far);
  // A node was asked to stop at that time, perhaps before we learned of it. Ends that are reported
  // as later follow from it. `why` becomes the reason if no failure is left.
  void polite_since(TimePoint asked, const std::string& why);
  friend bool operator==(const RoundEnd&, const RoundEnd&) = default;
};

// How a job ends whose last round broke like that. Being asked to stop is no failure, and neither
// are the ends it caused; a failure before the stop still is.
link::Finish finish_of(const RoundEnd& round_end);

struct RoundRecord {
  RoundNumber round;
  int restart = 0;  // restarts used when it was sealed
  TimePoint began{};
  std::optional<TimePoint> ended = {};  // nothing: it runs or drains
  std::string reason = {};              // why its workers were ended; empty if they were not
  std::optional<link::Failure> root = {};
  // What followed from the root: a few, and how many there were.
  std::vector<link::Consequence> consequences = {};
  std::size_t consequence_count = 0;
  int worker_restarts = 0;  // of single workers, while it ran (RestartScope::worker)
  friend bool operator==(const RoundRecord&, const RoundRecord&) = default;
};

// Fills the record with what is known so far of a round that breaks.
void tell_end(RoundRecord& record, const RoundEnd& end);

// The outcome of every round of a job, for clients that look at it while it runs: which failure
// broke it, and what followed. Bounded, because a job may restart for weeks: the first rounds,
// which show how it began, the last rounds, and counts of all. Decides nothing.
class RoundHistory {
 public:
  // The whole content, for keeping it longer than the coordinator lives.
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
  // A worker of the last sealed round failed for that cause, and was restarted alone.
  void worker_restarted(const std::string& cause);
  // The last sealed round is over. `restarted`: that used a restart.
  void closed(TimePoint now, const RoundEnd& end, bool restarted);

  // What failed first in that round; nothing if nothing did, or if the round is not kept.
  const link::Failure* root_of(RoundNumber round) const;
  // In order of time, including the running round.
  std::vector<RoundRecord> list() const;
  // Rounds between the first and the last that are not kept.
  std::size_t left_out() const { return kept_.left_out; }
  // Counts over all rounds, by cause id: first failures, and restarts. "unknown": the cause is not
  // known. "other": causes in excess of bounds::causes_counted_max.
  const std::map<std::string, std::size_t>& failures() const { return kept_.failures; }
  const std::map<std::string, std::size_t>& restarts() const { return kept_.restarts; }

 private:
  Kept kept_;
};

}  // namespace cpprun
