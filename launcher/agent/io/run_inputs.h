// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What has been found out before anything starts: the preparation fills it in step by step, and the
// runtime takes it over.

#include <sys/resource.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/io/preemption_watch.h"
#include "launcher/config.h"
#include "launcher/plan/cpu_list.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/program.h"
#include "launcher/report/console_messages.h"
#include "launcher/report/io/output_files.h"
#include "launcher/workers/io/kin.h"
#include "proto/environment.h"
#include "proto/secure/secret.h"
#include "rendezvous/io/side_processes.h"

namespace cpprun::io {

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

}  // namespace cpprun::io
