// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What nodes are told later: when the record of what was decided before it is on a disk
// (--state-sync). All words keep their order, of whichever job they are.

#include <cstdint>
#include <deque>
#include <optional>

#include "rendezvous/job/coordinator_actions.h"

namespace cpprun {

class HeldWords {
 public:
  // What is said from now on waits for that number; 0: for nothing more than before.
  void wait_for(std::uint64_t number);
  // True: it is said later. False: now, by whoever asks.
  bool hold(const coordinator::Action& action);
  // Nobody has to wait for those numbers, up to that one, any more.
  void written(std::uint64_t through);
  // The next that is to be said now, and nothing behind the last.
  std::optional<coordinator::Action> next();

 private:
  struct Held {
    std::uint64_t number = 0;
    coordinator::Action action;
  };
  std::uint64_t awaited_ = 0;
  std::uint64_t written_ = 0;
  std::deque<Held> held_;  // by number
};

}  // namespace cpprun
