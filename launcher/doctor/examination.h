// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the console of `cpprunctl doctor` decides: whom to call, when all have said what they are
// and may look for each other, and when it is over. It speaks to the hosts through a
// fanout::Branch. Pure.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/doctor/host_facts.h"
#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/message.h"
#include "proto/clock.h"
#include "proto/state_machine.h"

namespace cpprun::doctor {

// For what a host is asked. Its own waits are shorter: bounds of io/host_answers.
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

}  // namespace cpprun::doctor
