// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The phase of a state machine. It changes in one place, which knows what may follow what: a step
// that its author has not foreseen ends the program there, instead of going on from a state that
// cannot be and ending somewhere else.

#include <algorithm>
#include <cassert>
#include <span>

namespace cpprun {

template <class P>
struct PhaseStep {
  P from;
  P to;
  friend bool operator==(const PhaseStep&, const PhaseStep&) = default;
};

// `Enum` is the machine's own enumeration, and the steps are all that it may take.
template <class Enum>
class PhaseOf {
 public:
  using Steps = std::span<const PhaseStep<Enum>>;

  // `steps` has to outlive the machine: it is a constant of its class.
  PhaseOf(Enum first, Steps steps) : now_(first), steps_(steps) {}

  operator Enum() const { return now_; }  // So that it is compared and switched over as one.

  // To stay is no step, and may always be.
  bool may_become(Enum next) const {
    return next == now_ ||
           std::find(steps_.begin(), steps_.end(), PhaseStep<Enum>{now_, next}) != steps_.end();
  }
  void become(Enum next) {
    assert(may_become(next) && "this phase does not follow from the one before");
    now_ = next;
  }

 private:
  Enum now_;
  Steps steps_;
};

}  // namespace cpprun
