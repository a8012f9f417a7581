// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Collects what is known about a worker's bad end: its error file, its last lines, what the machine
// reported meanwhile. Judges nothing; diagnosis does. Nothing that ends workers ever waits for it.

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/failure/evidence.h"
#include "launcher/failure/io/evidence_sources.h"
#include "launcher/io/disk_helper.h"
#include "launcher/output/io/output_pump.h"
#include "launcher/plan/plan.h"
#include "proto/environment.h"

namespace cpprun::io {

class EvidenceCollector {
 public:
  // `run_folder` is where logs stay; empty: nowhere.
  EvidenceCollector(asio::io_context& context, SideProcesses& side, OutputPump& pump,
                    const Environment& environment, std::string run_folder);

  // A new attempt begins: what the machine counts is compared with this moment.
  void begin();

  // Before a worker is sent KILL: what is it doing? Kept for its evidence.
  void look_before_kill(LocalRank local_rank, int pid);
  // The same in words; empty where nobody looked.
  std::string last_seen(LocalRank local_rank) const;

  // Calls `told` once, from the event loop, within a time limit: what lies on a hung disk is then
  // left out, and `whole` is false.
  using Told = std::function<void(Evidence evidence, bool whole)>;
  void examine(const Outcome& outcome, const WorkerSpec& spec, Told told);

 private:
  HostFacts host_facts_of(const Outcome& outcome);

  OutputPump& pump_;
  std::string run_folder_;
  std::vector<std::string> disks_;  // that a worker needs
  KernelLog kernel_log_;
  OomKills oom_before_;
  std::map<LocalRank, std::string> last_seen_;
  Inquiry inquiry_;
};

}  // namespace cpprun::io
