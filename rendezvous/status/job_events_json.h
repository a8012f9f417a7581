// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What happens to the jobs of a daemon, as the objects of docs/events.md. A daemon has no workers
// and no rank: it tells what its coordinator wants done, each thing once however many nodes hear
// it.

#include <map>
#include <optional>
#include <string>

#include "proto/clock.h"
#include "proto/ids.h"
#include "rendezvous/job/coordinator_actions.h"

namespace cpprun {

class JobEvents {
 public:
  explicit JobEvents(std::string host) : host_(std::move(host)) {}

  // One line; nothing where that is no event, or was told before.
  std::optional<std::string> line(WallTime time, const std::string& job,
                                  const coordinator::Action& action);

 private:
  // What was told of a job; gone with the job.
  struct Told {
    RoundNumber sealed{};
    RoundNumber drained{};
    bool ended = false;
  };

  std::string host_;
  std::map<std::string, Told> told_;
};

}  // namespace cpprun
