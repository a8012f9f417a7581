// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The store port of a simulated cpprun for its workers, the counterpart of StoreForwarder, with the
// same WorkerStreams.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store_streams.h"
#include "tests/sim/loopback.h"
#include "tests/sim/universe.h"

namespace cpprun::sim {

class NodePort {
 public:
  struct Hooks {
    std::function<bool()> has_room;                    // the link
    std::function<void(std::string_view frame)> send;  // through it
  };
  NodePort(Universe& universe, int node, Program& program, Hooks hooks);
  NodePort(const NodePort&) = delete;
  NodePort& operator=(const NodePort&) = delete;

  // Starts a new cpprun, which has no round yet; and its end.
  void begin();
  void end();

  // A worker has connected.
  void accept(const std::shared_ptr<Loopback>& worker);

  void begin_round(RoundNumber round);
  void end_round();
  void begin_link();
  std::string hear(std::string_view frame);
  void go_on();

  // Nothing that has arrived waits to be processed.
  bool is_calm() const { return turns_due_ == 0; }

 private:
  class End;
  void turn_soon();
  void examine();

  Universe& universe_;
  int node_;
  Program& program_;
  Hooks hooks_;
  std::uint64_t life_ = 0;
  int turns_due_ = 0;
  std::optional<WorkerStreams> streams_;
};

}  // namespace cpprun::sim
