// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The cpprunds of a simulated world with a leader, their etcd, and their faults.

#include <memory>
#include <vector>

#include "tests/sim/daemon_links.h"
#include "tests/sim/etcd_host.h"
#include "tests/sim/member.h"
#include "tests/sim/network.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class Members {
 public:
  Members(Universe& universe, Network& network);

  void begin();
  Member& at(int place) { return *members_[static_cast<std::size_t>(daemon_at(place))]; }
  // The leader, or any of them if there is none.
  CoordinatorHost& leading();
  // There is a leader that is in force.
  bool is_led() const;
  void commit(const Fault& fault);
  // Some time after the last fault there is a leader, if any cpprund runs.
  void judge_the_end();

 private:
  Member& victim_of(const Fault& fault);
  bool is_turn(const Member& victim) const;
  void end(Member& member, bool machine_too);
  void begin_in(Duration while_away, Member& member);
  void cut(const Fault& fault, const Member& member);
  void hand_over(const Fault& fault);

  Universe& universe_;
  Network& network_;
  EtcdHost etcd_;
  DaemonLinks links_;
  std::vector<std::unique_ptr<Member>> members_;
  TimePoint healed_{};  // the end of the last fault
};

}  // namespace cpprun::sim
