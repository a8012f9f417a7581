// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a run needs, collected before anything starts (RunInputs), and the result of a run that
// cannot start (Refusal).

#include <sys/resource.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/coordinator_link.h"
#include "launcher/agent/io/preemption_watch.h"
#include "launcher/cli/cli.h"
#include "launcher/config.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "launcher/report/console_messages.h"
#include "launcher/report/io/output_files.h"
#include "launcher/report/report.h"
#include "launcher/workers/io/process_tree.h"
#include "proto/environment.h"
#include "proto/secure/secret.h"
#include "rendezvous/io/helper_processes.h"

namespace cpprun::io {

// How this program was started, for another one in this process that continues (AgentUpgrade).
struct Origin {
  std::string version;
  std::vector<std::string> words;                        // its arguments
  Environment environment;                               // whole
  std::map<std::string, std::string> config_files = {};  // the text of each that was read
};

// Everything collected before the start. The preparation fills it in step by step, and the runtime
// takes it over.
struct RunInputs {
  // Our helper processes for access to disks that may hang.
  std::unique_ptr<HelperProcesses> side = std::make_unique<HelperProcesses>();
  Config config;
  ResolvedProgram program;
  Environment environment;
  std::vector<NetworkInterface> interfaces;
  std::optional<PreemptionNotice> notice;  // set if a notice is to be awaited
  std::vector<CpuSet> cpus;                // by local rank; empty: no binding
  std::string host;
  std::string node_token;
  std::uint32_t agent_number = 0;  // random; identifies this agent to its coordinator
  // Candidates for the private directory. The watchdog creates the first possible one. Empty if
  // logs are kept.
  std::vector<std::string> error_directories;
  Secrets secrets;             // empty: links are open, as torchrun's are
  JobProcesses job_processes;  // identifies the workers' processes
  int utc_offset_seconds = 0;
  int rendezvous_pid = -1;  // of the supervisor of this node's cpprund, if there is one
  ConsoleStyle style;
  OutputFiles output_files;          // --report and --events
  std::optional<rlimit> open_files;  // the workers' limit: ours before we raised it
  std::optional<int> niceness;       // the workers' niceness: ours before we raised our priority
  Origin origin;
};

// What an agent knows at its start. The directories are those of the workers; at most one is not
// empty.
AgentFacts facts_of(const RunInputs& inputs, std::string run_directory,
                    std::string error_directory);

// A job that never starts. It is reported on the console and in the --report file, so that an
// earlier run's report is not taken for this one's.
struct Refusal {
  std::string reason;
  int code = 1;  // cpprun's exit code
};

// Reports the refusal and returns the exit code.
int refuse(const RunInputs& inputs, const Refusal& refusal);
// The same if the flags themselves are wrong, or a file that they name cannot be written.
int refuse(CliDiagnostics diagnostics);

// The report file's content before there is anything to report.
ReportFacts facts_before_the_start(const RunInputs& inputs);

// The steps from a configuration to everything a run needs, in the order in which `main` calls
// them. They gather facts from the machine, `plan` decides, and RunInputs keeps the results.

// The input of the command line parser. `words` excludes the program's own name. `environment` must
// outlive the result.
CommandLine command_line(std::vector<std::string> words, const Environment& environment);

// A run with this configuration. Only facts about this process are filled in.
RunInputs begin_inputs(Config config, Environment own);

// The files of --report and --events. Writes "running" to the report, so that an earlier report is
// not taken for this run's. A file that cannot be written is an error like one in a flag.
std::optional<CliDiagnostics> open_output_files(RunInputs& inputs);

// Of the findings about this machine (host_facts.h), the start looks only for unusable GPUs.
void tell_missing_gpus(RunInputs& inputs);

// The program, the processors and the network.
std::optional<Refusal> examine_host(RunInputs& inputs);

// Raises the descriptor limit for many workers, and the priority so that leases can be kept. The
// workers get the values that cpprun itself was started with.
void raise_own_limits(RunInputs& inputs);

}  // namespace cpprun::io
