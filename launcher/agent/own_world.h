// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A script that launches processes of its own (mp.spawn, a server) under cpprun waits for ever, as
// it does under torchrun: its ranks look for a store that nobody hosts, because torch leaves
// hosting to whoever set TORCHELASTIC_USE_AGENT_STORE. The coordinator's host can see it: the
// workers are alive, none of them has asked the store for a long while, and rank 0 has processes of
// its own or does nothing at all. Pure: looks come in, at most one warning goes out.

#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"

namespace cpprun {

// What one look at the first worker of the coordinator's host shows.
struct WorldLook {
  bool store_asked = false;            // some worker of this round has spoken to the store
  std::vector<std::string> listeners;  // "pid 812 listens on port 12355", it or one it has started
  std::vector<std::string> spawned;    // "pid 812", started by Python's multiprocessing
  Duration processor_time{};           // of it and all that it has started
  friend bool operator==(const WorldLook&, const WorldLook&) = default;
};

class OwnWorld {
 public:
  // `sleepers`: a worker that does nothing is suspected as well.
  struct Timeouts {
    Duration silence{};  // of the store, before anybody is suspected
    bool sleepers = false;
  };

  explicit OwnWorld(Timeouts timeouts) : timeouts_(timeouts) {}

  // The workers of a round are being started.
  void began(TimePoint now);
  // They are asked to end, or gone.
  void over() { due_.reset(); }
  std::optional<TimePoint> next_deadline() const { return due_; }
  // Whether it is time for a look; the next one comes after a pause that grows.
  bool take_due(TimePoint now);
  std::optional<std::string> judge(TimePoint now, const WorldLook& look);

 private:
  Timeouts timeouts_;
  TimePoint began_{};
  std::optional<TimePoint> due_;
  Duration pause_{};  // to the next look
  // Of the look before.
  TimePoint looked_{};
  std::optional<Duration> processor_time_;
};

}  // namespace cpprun
