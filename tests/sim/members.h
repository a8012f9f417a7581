// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Several cpprunds of a simulated world, of which one leads, and their etcd; and what goes wrong
// with them.

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
  // Who leads, or would have to be asked for lack of one.
  CoordinatorHost& leading();
  // Somebody leads, and what it does is what happens.
  bool is_led() const;
  void commit(const Fault& fault);
  // Nothing has gone wrong for a while: somebody leads, if anybody is there.
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
  TimePoint healed_{};  // the last of what has gone wrong
};

}  // namespace cpprun::sim
