// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a job has used of its restarts: all that the next attempt is judged by, and all that has to
// be kept where a job is ended from outside (a scheduler's requeue) and goes on later.

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

struct RestartState {
  using Moments = std::deque<TimePoint>;  // the earliest first

  int restarts_used = 0;  // over the job's whole life, those that cost nothing too
  // Restarts that still count, by the cause their purse is for; "" is the whole job's.
  std::map<std::string, Moments, std::less<>> spent;
  link::Reached farthest;  // of all rounds
  int fruitless = 0;       // restarts in a row that came no further
  std::map<std::string, Moments, std::less<>> host_failures;

  friend bool operator==(const RestartState&, const RestartState&) = default;
};

}  // namespace cpprun
