// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The process of a cpprun or a cpprund: it runs, is stopped by SIGSTOP, or has ended. Events for a
// stopped process wait in the kernel and are handled when it resumes.

#include <deque>
#include <functional>
#include <utility>

namespace cpprun::sim {

class Program {
 public:
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }

  void begin() { alive_ = true; }
  void end() {
    alive_ = false;
    stopped_ = false;
    held_.clear();
  }

  // `what` runs now, when the process resumes, or never.
  void receive(std::function<void()> what, bool timer = false) {
    if (!alive_) return;
    if (stopped_) {
      held_.push_back({std::move(what), timer});
    } else {
      what();
    }
  }

  void stop() { stopped_ = alive_; }
  // The kernel decides whether timers or descriptors come first.
  void go_on(bool timers_first) {
    if (!stopped_) return;
    stopped_ = false;
    const auto held = std::exchange(held_, {});
    for (const bool turn : {timers_first, !timers_first}) {
      for (const Held& each : held) {
        if (each.timer == turn && alive_) each.what();
      }
    }
  }

 private:
  struct Held {
    std::function<void()> what;
    bool timer = false;
  };
  bool alive_ = false;
  bool stopped_ = false;
  std::deque<Held> held_;
};

}  // namespace cpprun::sim
