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

// Bytes of any kind, as two hexadecimal digits each: JSON has no other place for them.
template <class Text>
struct Hex {
  Text& bytes;
};
template <class Text>
Hex(Text&) -> Hex<Text>;

// A flag that travels as a 1 where it is set, and else not at all.
template <class Bool>
struct Flag {
  Bool& is_set;
};
template <class Bool>
Flag(Bool&) -> Flag<Bool>;

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
