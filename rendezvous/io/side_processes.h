// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Processes of our own for what may never come back. Who reads from or writes to a disk that hangs
// sits in the kernel, where not even KILL ends it; a thread that sits there keeps its whole process
// from ending. A child can be left behind: it hears no signal but KILL, holds nothing of ours open
// but what it was given, and what it was asked to write is written when the disk comes back.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

class SideProcesses {
 public:
  SideProcesses() = default;
  SideProcesses(const SideProcesses&) = delete;
  SideProcesses& operator=(const SideProcesses&) = delete;

  // Runs `work` in a child that ends with it, and gives its pid. The descriptors in `kept` are open
  // there, under their numbers; its standard streams, unless they are kept, are /dev/null.
  Result<int> start(const std::vector<int>& kept, const std::function<void()>& work);

  // What `look` finds in a child; nothing where it does not answer in time. Where no child can be
  // had it is better waited for than not looked at.
  std::optional<std::string> ask(const std::function<std::string()>& look, Duration patience);

  // KILL to a child that does not come back; one that hangs stays among those who were started.
  // Nobody, where it was reaped meanwhile: its number may be another's.
  void end(int pid) const;

  // Those that were started and have not been reaped.
  const std::vector<int>& pids() const { return pids_; }
  // Somebody else has reaped it.
  void reaped(int pid) { std::erase(pids_, pid); }

 private:
  void reap_ended();

  std::vector<int> pids_;
};

}  // namespace cpprun
