// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The interface of all state machines (StateMachine), their phase (PhaseOf) and the loop around
// them (Driver).

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

// A machine receives an event and the time, and returns the actions to perform, in order; it
// performs none itself. Its Driver performs them and sets one timer to next_deadline(). There are
// no ticks and no polling. check() returns the first violated invariant, if any; simulations and
// model checking call it after each step.
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

// The phase of a state machine. It changes only through become(), which asserts that the step is
// allowed: an unforeseen step fails there, instead of continuing from an impossible state.
//
// `Enum` is the machine's enumeration, and `steps` are all allowed steps.
template <class Enum>
class PhaseOf {
 public:
  using Steps = std::span<const PhaseStep<Enum>>;

  // `steps` has to outlive the machine: a constant of its class.
  PhaseOf(Enum first, Steps steps) : now_(first), steps_(steps) {}

  operator Enum() const { return now_; }  // for comparisons and switch statements

  // Staying in the same phase is always allowed.
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

// The loop around every state machine. Events are queued and processed in order, so that an action
// never calls back into a machine that is deciding: events that an action causes are processed
// after all actions before them. It has no clock, timer or socket; its owner provides them, and a
// simulation provides its own.
template <StateMachine M>
class Driver {
 public:
  using Event = typename M::Event;
  using Action = typename M::Action;
  using Actions = typename M::Actions;

  // Provided by the owner.
  struct Effects {
    std::function<TimePoint()> now;
    // Called for one action after the other, in order. May post events, and may end the machine.
    std::function<void(const Action&)> perform;
    // All posted events are processed: set the one timer, or leave it off. May post events.
    std::function<void(std::optional<TimePoint>)> arm;
    // Before the first action of each decision; may be empty.
    std::function<void(const Actions&)> decided = {};
    // After the last action of each decision; may be empty.
    std::function<void()> performed = {};
  };

  explicit Driver(Effects effects) : effects_(std::move(effects)) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Starts a new machine; events for an earlier one are dropped.
  void begin(M machine) {
    end();
    machine_.emplace(std::move(machine));
  }
  void end() {
    machine_.reset();
    events_.clear();
    ++life_;
  }
  // Performs the machine's initial actions, which `first` returns.
  template <class First>
  void start(First&& first) {
    turn([&] { return first(*machine_, effects_.now()); });
  }

  void post(Event event) {
    if (!machine_) return;
    events_.push_back(std::move(event));
    if (!working_) work_off();
  }
  // The timer expired. If it is too early, the timer is only set again.
  void advance() {
    if (!machine_ || working_) return;
    const auto deadline = machine_->next_deadline();
    if (!deadline || effects_.now() < *deadline) return rest();
    turn([this] { return machine_->advance(effects_.now()); });
  }

  bool running() const { return machine_.has_value(); }
  // Only valid while running().
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
      if (life != life_) return;  // that action ended the machine
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
