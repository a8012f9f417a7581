// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one grammar of every state machine in this house. A machine is told what happened and what
// time it is; it returns what to do, in order, and does none of it. Its driver performs the
// actions and arms one timer to next_deadline() (proto/driver.h). Nothing ticks, nothing polls.
// check() says which of its own invariants is broken, if one is: simulated and explored runs ask it
// after each step.

#include <concepts>
#include <optional>
#include <string>

#include "proto/clock.h"

namespace cpprun {

template <class M>
concept StateMachine =
    requires(M machine, const M& still, TimePoint now, const typename M::Event& event) {
      { machine.handle(now, event) } -> std::same_as<typename M::Actions>;
      { machine.advance(now) } -> std::same_as<typename M::Actions>;
      { still.next_deadline() } -> std::same_as<std::optional<TimePoint>>;
      { still.check() } -> std::same_as<std::optional<std::string>>;
    };

// For std::visit over a variant of plain structs: one lambda per alternative, no default.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace cpprun
