// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Collects the evidence about a worker's failure: its error file, its last output, and what the
// machine reported. It does not interpret the evidence; diagnosis does. Stopping workers never
// waits for it.

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
  // `run_folder` is the directory where logs are kept; empty: logs are not kept.
  EvidenceCollector(asio::io_context& context, HelperProcesses& side, OutputPump& pump,
                    const Environment& environment, std::string run_folder);

  // A new attempt begins. Kernel counters are compared with their values at this moment.
  void begin();

  // Records what a worker is doing before it is sent SIGKILL, as evidence.
  void look_before_kill(LocalRank local_rank, int pid);
  // That record as text; empty if none was taken.
  std::string last_seen(LocalRank local_rank) const;

  // Calls `told` once, from the event loop, within a time limit. If a disk hangs, evidence from
  // disks is missing and `whole` is false.
  using Told = std::function<void(Evidence evidence, bool whole)>;
  void examine(const Outcome& outcome, const WorkerSpec& spec, Told told);

 private:
  HostFacts host_facts_of(const Outcome& outcome);

  OutputPump& pump_;
  std::string run_folder_;
  std::vector<std::string> disks_;  // the disks that a worker needs
  KernelLog kernel_log_;
  OomKills oom_before_;
  std::map<LocalRank, std::string> last_seen_;
  AsyncTask async_task_;
};

}  // namespace cpprun::io
