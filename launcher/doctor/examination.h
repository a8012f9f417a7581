// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The examination of hosts: what a host reports about itself and about its connections to the
// others, what the console decides (Examination), and the messages between the two.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/message.h"
#include "launcher/plan/host_facts.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "proto/state_machine.h"

namespace cpprun::doctor {

// A host that other hosts should try to reach.
struct Target {
  int number = 0;
  std::string name;     // name to resolve
  std::string address;  // where nodes would meet on it; may be a name as well
  int port = 0;         // 0: it does not listen
  std::string greeting;
  friend bool operator==(const Target&, const Target&) = default;
};

enum class Reached { yes, refused, silent, unresolved, unrelated, failed, not_tried };

// The result of trying to reach another host.
struct Dialed {
  int number = 0;                      // of the other host
  std::vector<std::string> addresses;  // addresses its name resolves to here
  std::string why_unresolved;          // empty: it resolved
  Reached reached = Reached::not_tried;
  std::string where;  // the address and port that were tried
  std::string why;    // the kernel's error, if not reached
  friend bool operator==(const Dialed&, const Dialed&) = default;
};

// The hosts that a host tries to reach: the next `others_max` in the list, which is treated as a
// ring, and the first host, where the nodes of a job meet by default.
inline constexpr int others_max = 32;
std::vector<Target> others_of(int number, const std::vector<Target>& all);

// For a host's answer. The host's own timeouts are shorter: see io/doctor.cpp.
inline constexpr Duration answer_timeout = std::chrono::seconds(40);
// For the remote shells to exit by themselves.
inline constexpr Duration end_timeout = std::chrono::seconds(5);

// How far a host's clock differs from ours.
struct ClockOffset {
  Duration offset{};  // positive if its clock is ahead
  Duration error{};   // bound of the error in either direction
  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

struct ExaminedHost {
  fanout::Member member;
  std::string address;  // where nodes would meet on it
  std::string gone;     // why it is unreachable or did not answer; empty: it answered
  std::optional<HostFacts> facts;
  std::optional<ClockOffset> clock;  // nullopt for this machine
  std::vector<Dialed> dialed;
};

// The decisions of `cpprunctl doctor`'s console: which hosts to call, when all have reported and
// may try to reach each other, and when the examination is over. It talks to the hosts through a
// fanout::HostShells. Pure.
class Examination {
 public:
  using Event = std::variant<fanout::Said, fanout::Interrupted>;
  using Action = std::variant<fanout::Dial, fanout::Tell, fanout::Finish>;
  using Actions = std::vector<Action>;

  // `port`: where every host listens; 0: any free port. `clocks`: both clocks now.
  Examination(const std::vector<fanout::Member>& members, int port, const ClockPair& clocks);
  // Before each call of handle() and advance(): the steady clock stops while the machine sleeps.
  void set_clocks(const ClockPair& clocks) { clocks_ = clocks; }

  Actions start();
  Actions handle(TimePoint now, const Event& event);
  Actions advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

  // In the order given by the user.
  std::vector<ExaminedHost> hosts() const;

 private:
  enum class Phase { calling, asking, dialing, ending, over };
  struct RemoteHost {
    ExaminedHost host;
    bool is_here = false;
    bool is_awaited = true;  // in the current phase
  };

  void hear(TimePoint now, const fanout::Said& said);
  void answer(TimePoint now, RemoteHost& remote, const fanout::Answer& answer);
  void go_on(TimePoint now, Actions& actions);
  void begin(Phase phase, TimePoint now);
  void end(TimePoint now, Actions& actions);
  bool is_awaited() const;
  std::vector<Target> targets() const;

  int port_ = 0;
  ClockPair clocks_;  // as of the last call
  std::map<int, RemoteHost> remotes_;
  PhaseOf<Phase> phase_;
  WallTime asked_{};
  std::optional<TimePoint> deadline_;  // not while calling: shells have their own deadlines
  int interrupted_ = 0;
};

// The console's questions and the hosts' answers, as texts for fanout's Ask and Answer.

// Report your facts and listen on that port (0: any free one).
struct AskFacts {
  int port = 0;
  friend bool operator==(const AskFacts&, const AskFacts&) = default;
};
// Try to reach these hosts: others_of() this host.
struct AskDial {
  std::vector<Target> others;
  friend bool operator==(const AskDial&, const AskDial&) = default;
};
using Question = std::variant<AskFacts, AskDial>;

std::string to_json(const Question& question);
Result<Question> read_question(std::string_view json);

using Reading = std::variant<HostFacts, std::vector<Dialed>>;

std::string to_json(const Reading& reading);
Result<Reading> read_reading(std::string_view json);

}  // namespace cpprun::doctor
