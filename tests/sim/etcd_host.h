// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The etcd of a simulated world, and the ways of its cpprunds to the members. What is asked may be
// lost on either way, and may be carried out long after nobody waits for it any more.

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

  // Daemon `who` asks, and is answered by that moment, be it that nothing has come.
  void ask(int who, const election::Ask& ask, TimePoint deadline,
           std::function<void(const etcd::Heard&)> answered);
  // It does not reach any member until then.
  void cut(int who, TimePoint until);
  // Something happens to a member, or to all of etcd.
  void commit(const Fault& fault);
  // Who is told what, and what is wished for.
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
