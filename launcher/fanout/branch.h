// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One node of the tree: the shells that it has opened, which hosts are behind each, and what is
// passed on between them and whoever stands above. The console is one, and so is every host with a
// subtree; a leaf is one without shells. Decides only.
//
// A host whose shell does not come up is told as gone, and whoever was to be started by it is
// dialed from here instead, so that one dead host hides no other.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/clock.h"

namespace cpprun::fanout {

inline constexpr std::size_t shells_max = 32;                         // of one node at a time
inline constexpr Duration reach_patience = std::chrono::seconds(20);  // without a word from it
// From the dialing until the host itself is there. Output of the shell does not prolong it.
inline constexpr Duration arrival_patience = std::chrono::seconds(60);
inline constexpr Duration ping_interval = std::chrono::seconds(5);
inline constexpr Duration silence_max = std::chrono::seconds(30);

// --- events
struct Dial {
  std::vector<Member> members;
};
struct Tell {
  Down message;  // Begin, Stop
};
// The shell has said something that is no message yet: it lives.
struct Alive {
  int shell = 0;
};
// Our own cpprun is there behind it.
struct Ready {
  int shell = 0;
};
struct Said {
  int shell = 0;
  Up message;
};
struct ShellEnded {
  int shell = 0;
  std::string reason;  // a clause
};

// --- actions
struct Start {
  int shell = 0;
  std::vector<Member> members;  // the first is the shell's host
};
struct Give {
  int shell = 0;
  Down message;
};
// KILL to a shell, whose end will be told as all others.
struct Kill {
  int shell = 0;
};
struct Pass {
  Up message;
};

class Branch {
 public:
  using Event = std::variant<Dial, Tell, Alive, Ready, Said, ShellEnded>;
  using Action = std::variant<Start, Give, Kill, Pass>;
  using Actions = std::vector<Action>;

  explicit Branch(JobTerms job) : job_(std::move(job)) {}

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

  // No shell is open.
  bool empty() const { return shells_.empty() && waiting_.empty(); }

 private:
  struct Shell {
    std::vector<Member> members;
    std::set<int> open;   // numbers of those that are neither gone nor ended
    std::set<int> known;  // of those that said where they are, or were told as gone
    bool ready = false;
    bool killed = false;
    std::string why_killed;
    TimePoint dialed{};
    TimePoint heard{};
    TimePoint pinged{};

    // Its host has said where it is, or that it has ended.
    bool has_arrived() const;
  };

  void dial(TimePoint now, std::vector<Member> members, Actions& actions);
  void tell(const Down& message, Actions& actions);
  void take(TimePoint now, const Said& said, Actions& actions);
  void end(TimePoint now, const ShellEnded& ended, Actions& actions);
  void kill(int number, Shell& shell, std::string why, Actions& actions);
  static TimePoint due(const Shell& shell);

  JobTerms job_;
  std::map<int, Shell> shells_;
  std::vector<Member> waiting_;  // for a place among the shells
  int next_shell_ = 1;
  bool stopping_ = false;
};

}  // namespace cpprun::fanout
