// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An examination of hosts: what a host says of itself and of its way to the others, what the
// console decides (Examination), and what the two say to each other.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/message.h"
#include "launcher/plan/gpus.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "proto/state_machine.h"

namespace cpprun::doctor {

// A file system, in bytes.
struct Disk {
  std::string path;
  std::uint64_t size = 0;
  std::uint64_t free = 0;  // for this user
  std::string refusal;     // why nothing can be written there; empty: something can
  friend bool operator==(const Disk&, const Disk&) = default;
};

// Of one process or one user; nothing: there is none.
struct Limits {
  std::optional<std::uint64_t> open_files;    // the hard one: cpprun raises itself to it
  std::optional<std::uint64_t> locked_bytes;  // the soft one
  std::optional<std::uint64_t> processes;     // the soft one
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct HostFacts {
  std::string host;     // its name of itself
  std::string version;  // of the cpprunctl that says this
  std::string cpprun;   // what its cpprun says as --version; empty: there is none
  std::string network;  // of hosts that share one network stack the same
  GpuCounts gpus;
  std::string missing_gpus;  // what cpprun would say of them; mostly empty
  bool has_infiniband = false;
  Limits limits;
  Disk shared_memory;
  Disk temporary;
  // Of its own clock, when it was asked and when it answered.
  WallTime asked{};
  WallTime answered{};
  int port = 0;  // where it listens; 0: nowhere
  std::string why_no_port;
  std::string greeting;  // what it says to whoever comes there
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

// A host as the others are to look for it.
struct Target {
  int number = 0;
  std::string name;     // to be resolved
  std::string address;  // at which cpprun would have it meet; may be a name as well
  int port = 0;         // 0: it listens nowhere
  std::string greeting;
  friend bool operator==(const Target&, const Target&) = default;
};

enum class Reached { yes, refused, silent, unresolved, stranger, failed, not_tried };

// One of the others, seen from a host.
struct Dialed {
  int number = 0;                      // of the other
  std::vector<std::string> addresses;  // what its name stands for here
  std::string why_unresolved;          // empty: it is resolved
  Reached reached = Reached::not_tried;
  std::string where;  // the address and the port that were dialed
  std::string why;    // what the kernel said, where it was not reached
  friend bool operator==(const Dialed&, const Dialed&) = default;
};

// Whom a host looks for: its followers in the list, which is taken for a ring, as many as
// `others_max`, and the first host, where the nodes of a job meet by default.
inline constexpr int others_max = 32;
std::vector<Target> others_of(int number, const std::vector<Target>& all);

// For what a host is asked. Its own waits are shorter: see io/doctor.cpp.
inline constexpr Duration answer_patience = std::chrono::seconds(40);
// For the remote shells to end by themselves.
inline constexpr Duration end_patience = std::chrono::seconds(5);

// How a host's clock stands to ours, and how well that is known.
struct ClockOffset {
  Duration offset{};  // what it is ahead
  Duration error{};   // at most so much more or less
  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

struct ExaminedHost {
  fanout::Member member;
  std::string address;  // at which cpprun would have it meet
  std::string gone;     // why it is not there, or has said nothing; empty: it is
  std::optional<HostFacts> facts;
  std::optional<ClockOffset> clock;  // nothing for this machine itself
  std::vector<Dialed> dialed;
};

// What the console of `cpprunctl doctor` decides: whom to call, when all have said what they are
// and may look for each other, and when it is over. It speaks to the hosts through a
// fanout::Branch. Pure.
class Examination {
 public:
  struct Now {
    TimePoint time;
    WallTime wall;
  };
  using Event = std::variant<fanout::Up, fanout::Interrupted>;
  using Action = std::variant<fanout::DialHosts, fanout::TellHosts, fanout::Finish>;
  using Actions = std::vector<Action>;

  // `port`: where every host is to listen; 0: anywhere.
  Examination(const std::vector<fanout::Member>& members, int port);

  Actions start();
  Actions handle(const Now& now, const Event& event);
  Actions advance(const Now& now);
  std::optional<TimePoint> next_deadline() const;
  std::optional<std::string> check() const;

  // In the order in which they were named.
  std::vector<ExaminedHost> hosts() const;

 private:
  enum class Phase { calling, asking, dialing, ending, over };
  struct Guest {
    ExaminedHost host;
    bool is_here = false;
    bool is_awaited = true;  // in this phase
  };

  void hear(const Now& now, const fanout::Up& message);
  void answer(const Now& now, const fanout::Answer& answer);
  void go_on(const Now& now, Actions& actions);
  void begin(Phase phase, const Now& now);
  void end(const Now& now, Actions& actions);
  bool is_awaited() const;
  std::vector<Target> targets() const;

  int port_ = 0;
  std::map<int, Guest> guests_;
  PhaseOf<Phase> phase_;
  WallTime asked_{};
  std::optional<TimePoint> deadline_;  // the shells have deadlines of their own while calling
  int interrupted_ = 0;
};

// What the console asks a host, and what it answers, as texts for fanout's Ask and Answer.

// Say what you are, and listen at that port (0: any that is free).
struct AskFacts {
  int port = 0;
  friend bool operator==(const AskFacts&, const AskFacts&) = default;
};
// Look for others among all of these.
struct AskDial {
  std::vector<Target> all;
  friend bool operator==(const AskDial&, const AskDial&) = default;
};
using Question = std::variant<AskFacts, AskDial>;

std::string to_json(const Question& question);
Result<Question> read_question(std::string_view json);

using Reading = std::variant<HostFacts, std::vector<Dialed>>;

std::string to_json(const Reading& reading);
Result<Reading> read_reading(std::string_view json);

}  // namespace cpprun::doctor
