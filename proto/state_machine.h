// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The interface of every state machine (StateMachine), its phase (PhaseOf) and the loop around it
// (Driver).

#include <algorithm>
#include <cassert>
#include <concepts>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "proto/clock.h"

namespace cpprun {

// A machine is told what happened and what time it is; it returns what to do, in order, and does
// none of it. Its Driver performs the actions and arms one timer to next_deadline(). Nothing ticks,
// nothing polls. check() says which of its own invariants is broken, if one is: simulated and
// explored runs ask it after each step.
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

template <class P>
struct PhaseStep {
  P from;
  P to;
  friend bool operator==(const PhaseStep&, const PhaseStep&) = default;
};

// The phase of a state machine. It changes in one place, which knows what may follow what: a step
// that its author has not foreseen ends the program there, instead of going on from a state that
// cannot be and ending somewhere else.
//
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

// The one loop around every state machine. Events wait in a queue that is worked off from the top,
// so that an action never calls back into a machine that is just deciding; what an action leads to
// is told after all the actions before it. Knows no clock, no timer and no socket: its owner has
// them, and a simulated world has others.
template <StateMachine M>
class Driver {
 public:
  using Event = typename M::Event;
  using Action = typename M::Action;
  using Actions = typename M::Actions;

  // What the owner does for it.
  struct Effects {
    std::function<TimePoint()> now;
    // One after the other, in order. It may post events, and end the machine.
    std::function<void(const Action&)> perform;
    // Everything that was posted is worked off: arm the one timer, or let it rest. It may post.
    std::function<void(std::optional<TimePoint>)> arm;
    // Before the first of the actions of one decision; may be empty.
    std::function<void(const Actions&)> decided = {};
    // After the last of them; may be empty.
    std::function<void()> performed = {};
  };

  explicit Driver(Effects effects) : effects_(std::move(effects)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // A new machine; what was posted for another is forgotten.
  void begin(M machine) {
    end();
    machine_.emplace(std::move(machine));
  }
  void end() {
    machine_.reset();
    events_.clear();
    ++life_;
  }
  // Where a machine has a word to say first: `first` is asked for it.
  template <class First>
  void start(First&& first) {
    turn([&] { return first(*machine_, effects_.now()); });
  }

  void post(Event event) {
    if (!machine_) return;
    events_.push_back(std::move(event));
    if (!working_) work_off();
  }
  // The timer rang. Too early, it is only armed again.
  void advance() {
    if (!machine_ || working_) return;
    const auto deadline = machine_->next_deadline();
    if (!deadline || effects_.now() < *deadline) return rest();
    turn([this] { return machine_->advance(effects_.now()); });
  }

  bool running() const { return machine_.has_value(); }
  // Only while it is running.
  M& machine() { return *machine_; }
  const M& machine() const { return *machine_; }

 private:
  template <class Decide>
  void turn(Decide&& decide) {
    working_ = true;
    perform(decide());
    work_off();
  }
  void work_off() {
    working_ = true;
    while (machine_ && !events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      perform(machine_->handle(effects_.now(), event));
    }
    working_ = false;
    rest();
  }
  void perform(const Actions& actions) {
    const auto life = life_;
    if (effects_.decided) effects_.decided(actions);
    for (const Action& action : actions) {
      if (life != life_) return;  // The action before has ended the machine.
      effects_.perform(action);
    }
    if (life == life_ && effects_.performed) effects_.performed();
  }
  void rest() {
    if (machine_) effects_.arm(machine_->next_deadline());
  }

  Effects effects_;
  std::optional<M> machine_;
  std::deque<Event> events_;
  bool working_ = false;
  unsigned life_ = 0;
};

}  // namespace cpprun
