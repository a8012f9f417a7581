// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Several programs with a LeaderElection each, and an EtcdModel, in simulated time; a seed decides
// the faults. A request may be lost in either direction, and may be executed long after its
// timeout.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/state_machine.h"
#include "rendezvous/etcd/leader_election.h"
#include "tests/rendezvous/etcd/election_judge.h"
#include "tests/rendezvous/etcd/etcd_model.h"
#include "tests/sim/machine_clock.h"
#include "tests/sim/random.h"
#include "tests/sim/timeline.h"

namespace cpprun::test {

// The kinds of faults.
enum class ElectionFault {
  killed,   // a program, which is restarted later
  stopped,  // a program
  cut_from_one,
  cut_from_all,  // members of etcd, for a program: the leader half of the time
  loss,
  slowness,
  no_room,  // in etcd
  election,
  member_stopped,  // sometimes while etcd is full; etcd's leader half of the time
  member_cut,
  member_crashes
};

class ElectionWorld {
 public:
  struct Options {
    int programs = 4;
    Duration ttl = std::chrono::seconds(2);  // as etcd grants it
    EtcdModel::Options etcd = {};
    std::vector<ElectionFault> faults = all_faults();
    bool keeps_lead = false;  // no leader may be deposed except on its own request
  };
  static std::vector<ElectionFault> all_faults();
  ElectionWorld(Options options, std::uint64_t seed);

  // Runs to the end: the broken promise, or "".
  std::string play();

  // Statistics.
  int leaders() const { return judge_.leaders(); }
  std::size_t steps() const { return timeline_.steps(); }
  std::size_t requests() const { return requests_; }
  Duration longest_gap() const { return longest_gap_; }
  // One line for each noteworthy event.
  const std::deque<std::string>& trace() const { return trace_; }

 private:
  struct Program {
    std::string name;
    sim::MachineClock clock;
    std::unique_ptr<Driver<LeaderElection>> driver;  // null: not running
    std::uint64_t life = 0;
    std::uint64_t alarm = 0;  // the number of the current timer
    bool is_stopped = false;
    bool is_waking = false;                        // it handles the events of its suspension
    std::vector<std::function<void()>> held = {};  // events during its suspension
    std::uint64_t number = 0;                      // of its last request
    bool is_wanted = true;
    bool is_withdrawn = false;
    std::vector<std::string> synced = {};
    std::optional<election::Will> will = {};  // of this run
  };
  struct Flight {  // a request in flight
    int who = 0;
    std::uint64_t life = 0;
    election::Ask ask;
    TimePoint arrived{};
    bool is_answered = false;
  };

  void begin(int who);
  void end(int who);
  void resign_for(int who);
  void go_on(int who);
  void run(int who, std::function<void()> what);
  void perform(int who, const election::Action& action);
  void hear(int who, const election::Action& action);
  void arm(int who, std::optional<TimePoint> at);
  void ask(int who, const election::Ask& ask);
  void arrive(const std::shared_ptr<Flight>& flight);
  void answer(const std::shared_ptr<Flight>& flight, etcd::Heard heard);
  void check(int who);
  void tell(int who, const election::Event& event);
  void plan_user(int who);
  void use(int who);
  void plan_faults();
  void plan_fault(TimePoint at);
  void plan_cut(TimePoint at, Duration length, int who, bool is_from_all);
  void plan_member_fault(TimePoint at, Duration length, ElectionFault fault);
  void heal();
  void watch_leader();
  std::string play_calm();
  std::string play_own_resignation();
  void run_until(TimePoint end);
  void note(std::string text);
  Duration delay();
  bool is_lost(int who, std::size_t member);
  TimePoint now() const { return timeline_.now(); }

  Options options_;
  sim::Random chance_;
  sim::Timeline timeline_;
  EtcdModel etcd_;
  ElectionKeys keys_;
  ElectionJudge judge_;
  std::vector<Program> programs_;
  std::uint64_t seed_;
  double loss_ = 0;      // of messages in either direction
  Duration slowness_{};  // maximum delay of a message
  Duration usual_slowness_{};
  std::vector<std::vector<bool>> is_cut_;  // program, member
  std::size_t requests_ = 0;
  bool is_calm_ = false;  // all faults are over
  std::optional<TimePoint> leaderless_since_;
  Duration longest_gap_{};
  std::string objection_;
  std::deque<std::string> trace_;
};

}  // namespace cpprun::test
