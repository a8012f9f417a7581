// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Everything known about a worker's bad end. io/ collects it, diagnosis judges it.

#include <string>
#include <vector>

#include "launcher/failure/missing_module.h"
#include "launcher/workers/supervisor.h"

namespace cpprun {

// What is wrong with a file that could not be executed, beyond the errno the kernel gave.
enum class ExecFault {
  none,                 // nothing was found, or nothing was looked for
  noexec_mount,         // its file system is mounted noexec
  wrong_machine,        // a binary for another processor
  missing_interpreter,  // of its #! line, or its dynamic loader
  no_magic,             // neither a binary nor a #! line
};

// What the machine reported around the time a worker ended.
struct HostFacts {
  // OOM kills since the attempt began: in this job's control group, and on the whole machine, which
  // is all an unprivileged process may know.
  long oom_kills = 0;
  long oom_kills_on_machine = 0;
  std::string memory_limit;               // of the control group, "4.0 GiB"; empty: none
  std::vector<std::string> full_disks;    // of those a worker needs: logs, TMPDIR, /dev/shm
  std::string small_shm;                  // the size of a /dev/shm as containers have it, or empty
  std::vector<std::string> kernel_lines;  // of the kernel's log that name its pid
  ExecFault exec_fault = ExecFault::none;
  std::string exec_detail;  // the interpreter that is missing, the processor it was built for
  std::string last_seen;    // what it was doing when it was sent KILL: "was in state D (…), …"
  ModuleSight module = {};  // of a Python module that was not found
  std::string stray_interface = {};  // it was told to use one that leads to nobody; which, and why
  friend bool operator==(const HostFacts&, const HostFacts&) = default;
};

struct Evidence {
  Outcome outcome;
  std::string executable;               // argv[0], for what could not be started
  std::string error_text;               // content of error.json; empty: none was written
  std::string error_file;               // its path, where it outlives the job
  std::vector<std::string> last_lines;  // of stderr, where they were not the console's alone
  bool with_stdout = false;             // those of stdout are among them
  bool on_console = false;              // its stderr was cpprun's own, which only people read
  std::string stdout_file;              // where the logs are; empty: nowhere
  std::string stderr_file;
  HostFacts host_facts;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

}  // namespace cpprun
