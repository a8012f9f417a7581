// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the console of a fan-out decides (FanOut), and what it is asked for (Request).

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/clock.h"
#include "proto/state_machine.h"

namespace cpprun::fanout {

// A host that was lost is dialed again after this, doubled each time, where the job is elastic.
inline constexpr Duration redial_first = std::chrono::seconds(1);
inline constexpr Duration redial_max = std::chrono::seconds(60);
// Beyond the workers' grace, for agents to end by themselves; and for what was killed to be gone.
inline constexpr Duration agents_patience = std::chrono::seconds(10);
inline constexpr Duration kill_patience = std::chrono::seconds(5);

struct Interrupted {
  int signal = 0;
};

struct DialHosts {
  std::vector<Member> members;
};
struct TellHosts {
  Down message;
};
// A worker's or an agent's words, for the console.
struct Show {
  Words words;
};
// A sentence of the console's own.
struct Say {
  std::string sentence;
  bool is_error = false;
};
struct Finish {
  int code = 0;
};

struct Wanted {
  std::vector<Member> members;
  int nodes_min = 1;          // as many have to be there for a beginning
  bool elastic = false;       // nodes_min of them are enough, and others may come later
  Duration grace{};           // the workers', between TERM and KILL
  std::string address;        // --master-addr; empty: what the first host says of itself
  int port = 0;               // --master-port; 0: what the first host has free
  bool is_rehearsal = false;  // every agent ends by itself, and nobody waits for another
};

// What the console decides: whom to dial, when everybody is there and the job begins, when all have
// to end, and with which code. It speaks to the hosts through a Branch. Before all have answered
// nothing is started anywhere, so that whoever cannot be reached is named with all others like it.
class FanOut {
 public:
  using Event = std::variant<Up, Interrupted>;
  using Action = std::variant<DialHosts, TellHosts, Show, Say, Finish>;
  using Actions = std::vector<Action>;

  explicit FanOut(Wanted wanted);

  Actions start();
  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

 private:
  enum class Phase { gathering, running, stopping, over };
  enum class State { pending, here, gone, ended };
  struct Guest {
    Member member;
    State state = State::pending;
    std::string reason;  // why it is gone
    Here here = {};
    int code = 0;
    bool ran = true;  // not so of one that could not start
    Duration backoff = redial_first;
    std::optional<TimePoint> redial = {};
  };

  void hear(TimePoint now, const Up& message, Actions& actions);
  void welcome(TimePoint now, const Here& here, Actions& actions);
  void lose(TimePoint now, const Gone& gone, Actions& actions);
  void note_end(TimePoint now, const Ended& ended, Actions& actions);
  void settle(TimePoint now, Actions& actions);
  void begin_job(TimePoint now, Actions& actions);
  static void redial_later(TimePoint now, Guest& guest);
  void stop(TimePoint now, int signal, Actions& actions);
  void finish_if_over(Actions& actions);
  void list_gone(Actions& actions) const;
  int count(State state) const;
  int exit_code() const;

  Wanted wanted_;
  std::map<int, Guest> guests_;
  PhaseOf<Phase> phase_;
  std::optional<Begin> begun_;
  std::optional<TimePoint>
      deadline_;         // of what is being waited for: ends by themselves, or by KILL
  int interrupted_ = 0;  // by that signal
  bool killing_ = false;
};

// What --hosts and --hostfile come to: all that the console needs to start a job on those hosts.
struct Request {
  Wanted wanted;
  // Without what only the console's process knows: its folder, and the secrets.
  JobTerms job;
};

}  // namespace cpprun::fanout
