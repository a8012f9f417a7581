// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The decisions of a fan-out: those of its console (FanOut) with its input (Request), and those of
// every node of its tree (FanOutNode).

#include <map>
#include <optional>
#include <set>
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

struct DialHosts {
  std::vector<Member> members;
};
struct TellHosts {
  Down message;
};
// Output of a worker or an agent, for the console.
struct Show {
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
// stop all, and the exit code. It talks to the hosts through a FanOutNode. Nothing is started until
// all hosts have answered, so that all unreachable hosts are reported together.
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

  void hear(TimePoint now, const Up& message, Actions& actions);
  void welcome(TimePoint now, const Here& here, Actions& actions);
  void lose(TimePoint now, const Gone& gone, Actions& actions);
  void note_end(TimePoint now, const Ended& ended, Actions& actions);
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
};

// --- a node of the tree --------------------------------------------------------------------------

inline constexpr std::size_t shells_max = 32;                        // open at a time per node
inline constexpr Duration reach_timeout = std::chrono::seconds(20);  // without shell output
// From dialing until the host itself has reported. Output of the shell does not extend it.
inline constexpr Duration arrival_timeout = std::chrono::seconds(60);
inline constexpr Duration ping_interval = std::chrono::seconds(5);
inline constexpr Duration silence_max = std::chrono::seconds(30);

// The events of a FanOutNode.
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

// Its actions.
struct Start {
  int shell = 0;
  std::vector<Member> members;  // the first is the shell's host
};
struct SendTo {
  int shell = 0;
  Down message;
};
// Sends SIGKILL to a shell. Its end is reported like any other.
struct Kill {
  int shell = 0;
};
struct Forward {
  Up message;
};

// One node of the fan-out tree: its open shells, the hosts behind each, and the messages relayed
// between them and its parent. The console is a node, and so is every host with a subtree; a leaf
// has no shells. Pure decisions.
//
// If a host's shell fails, the host is reported as gone, and the hosts it should have started are
// dialed from here. So a dead host does not hide others.
class FanOutNode {
 public:
  using Event = std::variant<Dial, Tell, Alive, Ready, Said, ShellEnded>;
  using Action = std::variant<Start, SendTo, Kill, Forward>;
  using Actions = std::vector<Action>;

  explicit FanOutNode(JobTerms job) : job_(std::move(job)) {}

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
