// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a contest asks of etcd: which member it asks (AskLanes), what is yet to be written
// (ChangeQueue), and how much is kept (RecordSizes).

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
#include "rendezvous/etcd/contest_events.h"

namespace cpprun {

// Which member of etcd is asked, and when: one request at a time in each lane, the next member when
// one fails, and a pause when all of them have.
class AskLanes {
 public:
  // What a request is for.
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
    contest::Lane lane = contest::Lane::lease;
    Step step = Step::look;
    TimePoint sent{};
    std::size_t endpoint = 0;
    std::uint64_t life = 0;
  };

  explicit AskLanes(std::size_t endpoints) : endpoints_(endpoints) {}

  bool is_idle(contest::Lane lane) const { return !of(lane).asked; }
  // Idle, and rested from what has failed.
  bool is_ready(contest::Lane lane, TimePoint now) const {
    return is_idle(lane) && of(lane).ready <= now;
  }
  TimePoint ready_at(contest::Lane lane) const { return of(lane).ready; }
  // Whether that is under way.
  bool is_asked(contest::Lane lane, Step step) const {
    return of(lane).asked && of(lane).asked->step == step;
  }

  // Only in an idle lane.
  contest::Ask ask(TimePoint now, contest::Lane lane, Step step, etcd::Request request,
                   Duration patience);
  // It was answered: what it was; nothing: nobody waits for it.
  std::optional<Asked> take(AskId id);
  // What is under way belongs to a life that is over: its answer changes nothing any more.
  void begin_life() { ++life_; }
  bool is_of_this_life(const Asked& asked) const { return asked.life == life_; }

  void succeeded(const Asked& asked);
  // `is_of_member`: another may do better. `rests`: where none can, nothing else is asked for a
  // while.
  void failed(TimePoint now, const Asked& asked, bool is_of_member, bool rests = true);
  // The member that answered is not up to date; nothing has failed.
  void turn_from(const Asked& asked);
  // How often in a row it has failed in that lane, and whether that means all members.
  bool has_failed_everywhere(contest::Lane lane) const { return of(lane).failures >= endpoints_; }
  // The others are no majority.
  bool has_failed_in_most(contest::Lane lane) const { return of(lane).failures > endpoints_ / 2; }

 private:
  struct State {
    std::optional<Asked> asked;
    AskId id{};
    TimePoint ready = TimePoint::min();
    std::size_t failures = 0;  // in a row
  };
  State& of(contest::Lane lane) { return states_[static_cast<std::size_t>(lane)]; }
  const State& of(contest::Lane lane) const { return states_[static_cast<std::size_t>(lane)]; }

  std::size_t endpoints_;
  std::size_t endpoint_ = 0;  // the one that is asked next
  std::uint64_t last_id_ = 0;
  std::uint64_t life_ = 0;
  std::array<State, contest::lanes> states_;
};

// What a leader wants to have written and is not written yet: of each record the last wish alone,
// in the place of the first. What is under way is not touched any more: it may be there already.
class ChangeQueue {
 public:
  struct Change {
    std::string name;                   // of a record; empty: who is synced
    std::optional<std::string> record;  // nothing: it is to go
    std::vector<std::string> synced = {};
    // The numbers of the wishes that it stands for.
    std::uint64_t first = 0;
    std::uint64_t last = 0;
  };
  using Batch = std::vector<Change>;

  // Numbers grow from wish to wish.
  void keep(std::string name, std::string record, std::uint64_t number);
  void drop(std::string name, std::uint64_t number);
  void publish(std::vector<std::string> synced, std::uint64_t number);
  // That wish was refused, and is not waited for.
  void skip(std::uint64_t number) { last_ = number; }

  bool has_more() const { return !waiting_.empty() || !under_way_.empty(); }
  // What is to be written now: the same until it was said to be written.
  const Batch& next_batch();
  void written() { under_way_.clear(); }
  // It is too much for etcd at once: the first of what was under way is tried alone. False: it was
  // alone already.
  bool narrow();
  // What was under way, and alone, is not wanted any more.
  Change give_up();

  std::uint64_t last() const { return last_; }
  // All wishes up to that number are written, or were refused.
  std::uint64_t through() const;
  // What comes now is of another leader's life.
  void clear();
  // What is broken about it; nothing: nothing is.
  std::optional<std::string> check() const;

 private:
  void add(Change change);

  std::deque<Change> waiting_;
  Batch under_way_;
  std::uint64_t last_ = 0;  // the number of the last wish
};

// How much a leader keeps in etcd, so that the next one can read all of it: by name, in its own
// words.
class RecordSizes {
 public:
  // Why that record may not be kept, as a clause; otherwise it counts from now on.
  Result<void> keep(const std::string& name, std::size_t bytes);
  void drop(const std::string& name);
  // It was found; nobody can refuse it any more.
  void found(const std::string& name, std::size_t bytes);
  void clear();

  std::size_t count() const { return sizes_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::size_t> sizes_;
  std::size_t bytes_ = 0;  // of all of them
};

}  // namespace cpprun
