// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Collects the evidence about a worker's failure (EvidenceCollector): its error file, its last
// output, and what the machine reports (the kernel's log and its OOM kill counters, the state of a
// process before SIGKILL, a file that could not be executed). It does not interpret the evidence;
// diagnosis does. Stopping workers never waits for it.

#include <asio/io_context.hpp>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/failure/evidence.h"
#include "launcher/io/disk_helper.h"
#include "launcher/output/io/output_pump.h"
#include "launcher/plan/plan.h"
#include "proto/environment.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

// Messages in the kernel's log (/dev/kmsg) since construction, if this process may read it: OOM
// kills, the library in which a process crashed, GPU errors.
class KernelLog {
 public:
  // Starts at the end of the log. Reads nothing if access is denied.
  KernelLog();

  // The lines so far that name that process or report a device error, oldest first. Does not block:
  // lines that the kernel writes later are returned by the next call.
  std::vector<std::string> about(int pid);

 private:
  void take_what_is_new();

  FileDescriptor log_;
  std::deque<std::string> lines_;
};

// How many processes the kernel has OOM-killed: in this process's control group (cgroup v1 or v2),
// and on the whole machine. Unprivileged processes can read the machine's counter everywhere, but
// not always the group's. The counters only grow, so compare two readings.
struct OomKills {
  long in_group = 0;
  long on_machine = 0;  // 0 if the group's counter is readable
};

OomKills oom_kills();

// The memory limit of the control group as text, "4.0 GiB"; empty if there is none.
std::string memory_limit();

// Describes a worker that is about to be sent SIGKILL: the state of its main process and of its
// first few descendants. Empty if it is gone. Reads a few files in /proc and does not block.
std::string process_snapshot(int pid);

// Why the kernel would not execute a file: one errno stands for four different faults.
struct ProgramFile {
  ExecFault fault = ExecFault::none;
  std::string detail;  // the missing interpreter, or the architecture of the binary
};

ProgramFile look_at_program(const std::string& path);

class EvidenceCollector {
 public:
  // `run_directory` is the directory where logs are kept; empty: logs are not kept.
  EvidenceCollector(asio::io_context& context, HelperProcesses& side, OutputPump& pump,
                    const Environment& environment, std::string run_directory);

  // A new attempt begins. Kernel counters are compared with their values at this moment.
  void begin();
  // That worker is restarted alone.
  void forget(LocalRank local_rank) { last_seen_.erase(local_rank); }

  // Records what a worker is doing before it is sent SIGKILL, as evidence.
  void look_before_kill(LocalRank local_rank, int pid);
  // That record as text; empty if none was taken.
  std::string last_seen(LocalRank local_rank) const;

  // Calls `told` once, from the event loop, within a time limit. If a disk hangs, evidence from
  // disks is missing and `whole` is false.
  using Told = std::function<void(Evidence evidence, bool whole)>;
  void examine(const Outcome& outcome, const WorkerSpec& spec, Told told);

 private:
  HostEvidence host_facts_of(const Outcome& outcome);

  OutputPump& pump_;
  std::string run_directory_;
  std::vector<std::string> disks_;  // the disks that a worker needs
  KernelLog kernel_log_;
  OomKills oom_before_;
  std::map<LocalRank, std::string> last_seen_;
  AsyncTask async_task_;
};

}  // namespace cpprun::io
