// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The etcd of a simulated world, and the network between it and the cpprunds. A request may be lost
// in either direction, and may be executed long after its timeout.

#include <functional>
#include <memory>
#include <vector>

#include "rendezvous/etcd/election_events.h"
#include "tests/rendezvous/etcd/election_judge.h"
#include "tests/rendezvous/etcd/etcd_model.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class EtcdHost {
 public:
  explicit EtcdHost(Universe& universe);

  static ElectionKeys keys() { return *ElectionKeys::make("sim"); }

  // Daemon `who` sends a request; `answered` is called by the deadline, with a failure if there is
  // no response.
  void ask(int who, const election::Ask& ask, TimePoint deadline,
           std::function<void(const etcd::Heard&)> answered);
  // Cuts the daemon off from all members until then.
  void cut(int who, TimePoint until);
  // A fault of a member, or of all of etcd.
  void commit(const Fault& fault);
  // Judges the events and commands of all elections.
  test::ElectionJudge& judge() { return judge_; }

 private:
  struct Flight {
    int who = 0;
    election::Ask ask;
    std::function<void(const etcd::Heard&)> answered;
    TimePoint arrived{};
    bool is_answered = false;
  };
  Duration delay();
  void send(const std::shared_ptr<Flight>& flight);
  void arrive(const std::shared_ptr<Flight>& flight);
  void answer(const std::shared_ptr<Flight>& flight, const etcd::Heard& heard);
  bool is_cut(int who) const { return cuts_[static_cast<std::size_t>(who)] > universe_.time.now(); }

  Universe& universe_;
  Random random_;
  test::EtcdModel etcd_;
  test::ElectionJudge judge_;
  std::vector<TimePoint> cuts_;  // by daemon
  TimePoint slow_until_{};
};

}  // namespace cpprun::sim
