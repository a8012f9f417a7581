// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a run needs, found out before anything starts (RunInputs), and the end of one that cannot
// start (Refusal).

#include <sys/resource.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/io/preemption_watch.h"
#include "launcher/cli/cli.h"
#include "launcher/config.h"
#include "launcher/plan/cpu_binding.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "launcher/report/console_messages.h"
#include "launcher/report/io/output_files.h"
#include "launcher/report/report.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/environment.h"
#include "proto/secure/secret.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

// What has been found out before anything starts: the preparation fills it in step by step, and the
// runtime takes it over.
struct RunInputs {
  // Of ours, for what is on disks that may hang.
  std::unique_ptr<SideProcesses> side = std::make_unique<SideProcesses>();
  Config config;
  ResolvedProgram program;
  Environment environment;
  std::vector<NetworkInterface> interfaces;
  std::optional<PreemptionNotice> notice;  // to be waited for
  std::vector<CpuSet> cpus;                // by local rank; empty: nobody is bound
  std::string host;
  std::string node_token;
  // Private, the first that can be had is made by the watchdog; empty where logs are kept.
  std::vector<std::string> error_folders;
  Secrets secrets;  // none: links are open, as torchrun's
  Kin kin;          // what the workers are known by
  int utc_offset_seconds = 0;
  int rendezvous_pid = -1;  // of the supervisor of this node's own cpprund, where it has one
  ConsoleStyle style;
  OutputFiles output_files;          // --report and --events
  std::optional<rlimit> open_files;  // the workers' limit, which was ours before we raised it
  std::optional<int> niceness;       // the workers', which was ours before we raised our priority
};

// A job that never comes to its start: it is told on the console and in the file of --report, so
// that nobody takes an earlier run's report for this one's.
struct Refusal {
  std::string reason;
  int code = 1;  // cpprun's exit code
};

// Tells why, and gives the exit code.
int refuse(const RunInputs& inputs, const Refusal& refusal);
// The same where not even the flags are in order, or a file that they name cannot be written.
int refuse(CliMistakes mistakes);

// What the report's file says while there is nothing to report.
ReportFacts facts_before_the_start(const RunInputs& inputs);

// From a configuration to everything a run needs: facts are gathered from the machine, `plan`
// decides what they come to, and this keeps the answers. The steps of `main`, in order.

// What the command line is read from; `words` without the program's own name. The environment is
// there for as long as it is.
CommandLine command_line(std::vector<std::string> words, const Environment& environment);

// A run with this configuration, of which nothing is known yet but who we are.
RunInputs begin_inputs(Config config, Environment own);

// The files of --report and --events. The report says that the job runs, so that nobody takes an
// earlier one for its own. A file that cannot be written is a mistake like one in a flag.
std::optional<CliMistakes> open_output_files(RunInputs& inputs);

// The program, the processors and the network.
std::optional<Refusal> look_around(RunInputs& inputs);

// Descriptors for many workers, and a priority with which leases can be kept; the workers are given
// back what cpprun itself was started with.
void raise_own_limits(RunInputs& inputs);

}  // namespace cpprun::io
