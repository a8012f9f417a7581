// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The requests of an election: which member of etcd gets them (AskLanes), which changes are not
// written yet (ChangeQueue), and the size of what is stored (RecordSizes).

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/etcd/election_events.h"

namespace cpprun {

// Chooses the member of etcd and the time of each request: one request at a time in each lane, the
// next member after a failure, and a pause once all members have failed.
class AskLanes {
 public:
  // The purpose of a request.
  enum class Step {
    look,
    keep_alive,
    grant,
    stand,
    load,
    take_over,
    write,
    move,
    resign,
    revoke,
    alarms
  };
  struct Asked {
    election::Lane lane = election::Lane::lease;
    Step step = Step::look;
    TimePoint sent{};
    std::size_t endpoint = 0;
    std::uint64_t life = 0;
  };

  explicit AskLanes(std::size_t endpoints) : endpoints_(endpoints) {}

  bool is_idle(election::Lane lane) const { return !of(lane).asked; }
  // Idle, and past the pause after a failure.
  bool is_ready(election::Lane lane, TimePoint now) const {
    return is_idle(lane) && of(lane).ready <= now;
  }
  TimePoint ready_at(election::Lane lane) const { return of(lane).ready; }
  // Whether a request for that step is pending.
  bool is_asked(election::Lane lane, Step step) const {
    return of(lane).asked && of(lane).asked->step == step;
  }

  // The lane has to be idle.
  election::Ask ask(TimePoint now, election::Lane lane, Step step, etcd::Request request,
                    Duration timeout);
  // Ends the request and returns it; empty if no such request is pending.
  std::optional<Asked> take(AskId id);
  // Marks pending requests as stale: their replies must not change anything.
  void begin_life() { ++life_; }
  bool is_of_this_life(const Asked& asked) const { return asked.life == life_; }

  void succeeded(const Asked& asked);
  // `is_of_member`: another member may succeed, so it is tried next. `rests`: if no member would,
  // the lane pauses.
  void failed(TimePoint now, const Asked& asked, bool is_of_member, bool rests = true);
  // Tries another member next, since this one is not up to date. Not a failure.
  void turn_from(const Asked& asked);
  // Whether the failures in a row amount to all members.
  bool has_failed_everywhere(election::Lane lane) const { return of(lane).failures >= endpoints_; }
  // The remaining members are not a majority.
  bool has_failed_in_most(election::Lane lane) const { return of(lane).failures > endpoints_ / 2; }

 private:
  struct State {
    std::optional<Asked> asked;
    AskId id{};
    TimePoint ready = TimePoint::min();
    std::size_t failures = 0;  // in a row
  };
  State& of(election::Lane lane) { return states_[static_cast<std::size_t>(lane)]; }
  const State& of(election::Lane lane) const { return states_[static_cast<std::size_t>(lane)]; }

  std::size_t endpoints_;
  std::size_t endpoint_ = 0;  // to be asked next
  std::uint64_t last_id_ = 0;
  std::uint64_t life_ = 0;
  std::array<State, election::lanes> states_;
};

// The changes of a leader that are not written yet. Per record only the last change is kept, in the
// position of the first. A batch that is being written is not modified: it may have been applied
// already.
class ChangeQueue {
 public:
  struct Change {
    std::string name;                   // of a record; empty: the synced members
    std::optional<std::string> record;  // empty: delete the record
    std::vector<std::string> synced = {};
    // The range of change numbers that it covers.
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  using Batch = std::vector<Change>;

  // Numbers have to increase.
  void keep(std::string name, std::string record, std::uint64_t number);
  void drop(std::string name, std::uint64_t number);
  void publish(std::vector<std::string> synced, std::uint64_t number);
  // That change was rejected, and does not count as pending.
  void skip(std::uint64_t number) { last_ = number; }

  bool has_more() const { return !waiting_.empty() || !under_way_.empty(); }
  // The batch to write now. Unchanged until written() is called.
  const Batch& next_batch();
  void written() { under_way_.clear(); }
  // The batch is too large for etcd: retries with its first change alone. False: it was a single
  // change already.
  bool narrow();
  // Drops the single change being written.
  Change give_up();

  std::uint64_t last() const { return last_; }
  // All changes up to that number are written or were rejected.
  std::uint64_t through() const;
  // Later changes belong to a new term as leader.
  void clear();
  // The violated invariant; empty: none.
  std::optional<std::string> check() const;

 private:
  void add(Change change);

  std::deque<Change> waiting_;
  Batch under_way_;
  std::uint64_t last_ = 0;  // of the last change
};

// The number and size of the records in etcd, by name. They are limited so that the next leader can
// read all of them.
class RecordSizes {
 public:
  // Counts the record, or fails with a clause that says why it cannot be stored.
  Result<void> keep(const std::string& name, std::size_t bytes);
  void drop(const std::string& name);
  // A record found in etcd; it counts even beyond the limits.
  void found(const std::string& name, std::size_t bytes);
  void clear();

  std::size_t count() const { return sizes_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::size_t> sizes_;
  std::size_t bytes_ = 0;  // of all records
};

}  // namespace cpprun
