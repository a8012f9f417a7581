// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A contest at work, as its owner has it: ContestHost, or what a simulated world has in its place.

#include <functional>

#include "rendezvous/etcd/contest_events.h"

namespace cpprun {

class Contestant {
 public:
  // Told everything but an Ask, which is not the owner's matter, in order. It may tell() something,
  // and end the contestant, but not from within.
  using Told = std::function<void(const contest::Action&)>;

  virtual ~Contestant() = default;
  // Looks who leads from here on, and wants to lead when it is told so.
  virtual void start() = 0;
  virtual void tell(contest::Event event) = 0;
};

}  // namespace cpprun
