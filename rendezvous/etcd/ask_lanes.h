// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which member of etcd is asked, and when: one request at a time in each lane, the next member when
// one fails, and a pause when all of them have.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "proto/clock.h"
#include "rendezvous/etcd/contest_events.h"

namespace cpprun {

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

}  // namespace cpprun
