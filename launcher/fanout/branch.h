// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One node of the fan-out tree: its open shells, the hosts behind each, and the messages relayed
// between them and its parent. The console is a node, and so is every host with a subtree; a leaf
// has no shells. Pure decisions.
//
// If a host's shell fails, the host is reported as gone, and the hosts it should have started are
// dialed from here. So a dead host does not hide others.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/clock.h"

namespace cpprun::fanout {

inline constexpr std::size_t shells_max = 32;                         // open at a time per node
inline constexpr Duration reach_patience = std::chrono::seconds(20);  // without shell output
// From dialing until the host itself has reported. Output of the shell does not extend it.
inline constexpr Duration arrival_patience = std::chrono::seconds(60);
inline constexpr Duration ping_interval = std::chrono::seconds(5);
inline constexpr Duration silence_max = std::chrono::seconds(30);

// --- events
struct Dial {
  std::vector<Member> members;
};
struct Tell {
  Down message;  // Begin or Stop
};
// The shell printed something that is not a message: it is alive.
struct Alive {
  int shell = 0;
};
// The shell runs our cpprun.
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
// Sends SIGKILL to a shell. Its end is reported like any other.
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

  // No shell is open and no host is waiting for one.
  bool empty() const { return shells_.empty() && waiting_.empty(); }

 private:
  struct Shell {
    std::vector<Member> members;
    std::set<int> open;   // hosts that are neither gone nor ended
    std::set<int> known;  // hosts that reported their address, or were reported as gone
    bool ready = false;
    bool killed = false;
    std::string why_killed;
    TimePoint dialed{};
    TimePoint heard{};
    TimePoint pinged{};

    // The shell's host has reported its address or its end.
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
  std::vector<Member> waiting_;  // for a free shell
  int next_shell_ = 1;
  bool stopping_ = false;
};

}  // namespace cpprun::fanout
