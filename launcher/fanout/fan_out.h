// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The decisions of the console of --hosts: about the job (FanOut) with its input (Request), and
// about the remote shells (HostShells).

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/clock.h"
#include "proto/state_machine.h"

namespace cpprun::fanout {

// Delay before a lost host is dialed again, doubled each time. Only in elastic jobs.
inline constexpr Duration redial_first = std::chrono::seconds(1);
inline constexpr Duration redial_max = std::chrono::seconds(60);
// Time for agents to exit, in addition to the workers' grace period; and for killed ones to be
// gone.
inline constexpr Duration agents_timeout = std::chrono::seconds(10);
inline constexpr Duration kill_timeout = std::chrono::seconds(5);

struct Interrupted {
  int signal = 0;
};

// A message from a host. If its shell fails, HostShells sends Gone in its name.
struct Said {
  int host = 0;
  Up message;
};
// Open a shell to each of these hosts.
struct Dial {
  std::vector<Member> hosts;
};
struct Tell {
  Down message;               // Begin, Stop or Ask
  std::optional<int> only{};  // the host that gets it; nullopt: all connected hosts
};
// Output of a worker or an agent, for the console.
struct Show {
  int host = 0;
  Words words;
};
// A message of the console's own.
struct Say {
  std::string sentence;
  bool is_error = false;
};
struct Finish {
  int code = 0;
};

struct Wanted {
  std::vector<Member> members;
  int nodes_min = 1;          // required to begin
  bool elastic = false;       // nodes_min nodes are enough, and others may join later
  Duration grace{};           // of the workers, between SIGTERM and SIGKILL
  std::string address;        // --master-addr; empty: as reported by the first host
  int port = 0;               // --master-port; 0: a free port of the first host
  bool is_rehearsal = false;  // agents exit by themselves, and no agent waits for another
};

// The console's decisions: which hosts to dial, when all have reported and the job begins, when to
// stop all, and the exit code. It talks to the hosts through HostShells. Nothing is started until
// all hosts have answered, so that all unreachable hosts are reported together.
class FanOut {
 public:
  using Event = std::variant<Said, Interrupted>;
  using Action = std::variant<Dial, Tell, Show, Say, Finish>;
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
  struct RemoteHost {
    Member member;
    State state = State::pending;
    std::string reason;  // why it is gone
    Here here = {};
    int code = 0;
    bool ran = true;  // false if its cpprun could not start
    Duration backoff = redial_first;
    std::optional<TimePoint> redial = {};
  };

  void hear(TimePoint now, const Said& said, Actions& actions);
  void welcome(TimePoint now, RemoteHost& remote, const Here& here, Actions& actions);
  void lose(TimePoint now, RemoteHost& remote, const Gone& gone, Actions& actions);
  void note_end(TimePoint now, RemoteHost& remote, const Ended& ended, Actions& actions);
  void begin_or_give_up(TimePoint now, Actions& actions);
  void begin_job(TimePoint now, Actions& actions);
  static void redial_later(TimePoint now, RemoteHost& remote);
  void stop(TimePoint now, int signal, Actions& actions);
  void finish_if_over(Actions& actions);
  void list_gone(Actions& actions) const;
  int count(State state) const;
  int exit_code() const;

  Wanted wanted_;
  std::map<int, RemoteHost> remotes_;
  PhaseOf<Phase> phase_;
  std::optional<Begin> begun_;
  std::optional<TimePoint> deadline_;  // for hosts to exit by themselves, or after SIGKILL
  int interrupted_ = 0;                // the signal received; 0: none
  bool killing_ = false;
};

// The result of --hosts and --hostfile: what the console needs to start a job on those hosts.
struct Request {
  Wanted wanted;
  // Without what only the console's process knows: its working directory and the secrets.
  JobTerms job;
  std::vector<std::string> shell;  // the remote shell's command, with {host} in one argument
  bool ship = false;
};

// --- the remote shells ---------------------------------------------------------------------------

// Shells whose hosts have not responded yet. Further hosts wait; shells that have a host stay open.
inline constexpr std::size_t dials_max = 64;
// With --ship, which may send them all a program of several megabytes within reach_timeout.
inline constexpr std::size_t shipping_dials_max = 32;
inline constexpr Duration reach_timeout = std::chrono::seconds(20);  // without shell output
// From dialing until the host itself has reported. Output of the shell does not extend it.
inline constexpr Duration arrival_timeout = std::chrono::seconds(60);
inline constexpr Duration ping_interval = std::chrono::seconds(5);
inline constexpr Duration silence_max = std::chrono::seconds(30);

// The events of HostShells, in addition to Dial, Tell and Said. A shell is known by its host.

// The shell printed something that is not a message: it is alive.
struct Alive {
  int host = 0;
};
// The shell runs our cpprun.
struct Ready {
  int host = 0;
};
struct ShellEnded {
  int host = 0;
  std::string reason;  // a clause
};

// Its actions, in addition to Said.
struct Start {
  Member host;
};
struct SendTo {
  int host = 0;
  Down message;
};
// Sends SIGKILL to a shell. Its end is reported like any other.
struct Kill {
  int host = 0;
};

// The console's remote shells, one per host: which are opened when, which are given up, and what is
// sent through each. Pure decisions.
class HostShells {
 public:
  using Event = std::variant<Dial, Tell, Alive, Ready, Said, ShellEnded>;
  using Action = std::variant<Start, SendTo, Kill, Said>;
  using Actions = std::vector<Action>;

  explicit HostShells(JobTerms job, std::size_t at_a_time = dials_max)
      : job_(std::move(job)), at_a_time_(at_a_time) {}

  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

  // No shell is open and no host is waiting for one.
  bool empty() const { return shells_.empty() && waiting_.empty(); }

 private:
  struct Shell {
    Member host;
    bool ready = false;
    bool arrived = false;  // the host has reported its address or its end
    bool over = false;     // its end was reported
    std::optional<std::string> why_killed;
    TimePoint dialed{};
    TimePoint heard{};
    TimePoint pinged{};
  };

  void dial_waiting(TimePoint now, Actions& actions);
  void tell(const Tell& told, Actions& actions);
  void take(TimePoint now, const Said& said, Actions& actions);
  void end(const ShellEnded& ended, Actions& actions);
  static void kill(Shell& shell, std::string why, Actions& actions);
  static TimePoint due(const Shell& shell);
  std::size_t dialing() const;

  JobTerms job_;
  std::size_t at_a_time_;
  std::map<int, Shell> shells_;  // by the host's number
  std::deque<Member> waiting_;   // for a free dial, or for the end of their previous shell
  bool stopping_ = false;
};

}  // namespace cpprun::fanout
