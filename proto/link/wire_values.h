// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Members of messages that travel as other values than they are, for the codec alone.

#include <chrono>

#include "proto/clock.h"

namespace cpprun::link {

// Two flags in one number, as a join has few bytes to spare: 0, 1 for idle, 2 for done as well.
template <class Flag>
struct Idle {
  Flag& idle;
  Flag& done;
};
template <class Flag>
Idle(Flag&, Flag&) -> Idle<Flag>;

// A duration that travels as a whole number of such units; what is finer is left out.
template <class Unit, class Value>
struct Whole {
  Value& duration;
};
template <class Value>
Whole<std::chrono::milliseconds, Value> milliseconds(Value& duration) {
  return {duration};
}
template <class Value>
Whole<std::chrono::microseconds, Value> microseconds(Value& duration) {
  return {duration};
}

}  // namespace cpprun::link
