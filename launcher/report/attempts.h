// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What became of every attempt of a job, as this node knows it, for the report: a job that succeeds
// at its ninth attempt has eight failures to tell of. Bounded: the first ones, which show how it
// began, and the last.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/link/message.h"

namespace cpprun {

struct Attempt {
  RoundNumber round;
  int restart = 0;
  WallTime began{};
  WallTime ended{};    // when the next one began, or the job ended
  std::string reason;  // why its workers were ended; empty where they were not
  // What failed first, as the coordinator says; where it has said nothing, what is known of this
  // node's own workers.
  std::optional<link::Failure> failure = {};
  friend bool operator==(const Attempt&, const Attempt&) = default;
};

class Attempts {
 public:
  // What the coordinator says of the attempt before replaces what this node knows of it.
  void begin(WallTime now, const link::Sealed& sealed);
  // The one that runs is being ended, for that reason; the first one counts.
  void draining(const std::string& reason);
  // A worker of this node ended badly. A known consequence counts only while there is nothing
  // better.
  void failed(const link::Failure& failure);
  // The coordinator has judged the one that ended last.
  void judged(const link::Failure& root);

  // All that are kept, the last of them ended now.
  std::vector<Attempt> list(WallTime now) const;
  std::size_t left_out() const { return left_out_; }

 private:
  std::vector<Attempt> attempts_;
  std::size_t left_out_ = 0;
};

}  // namespace cpprun
