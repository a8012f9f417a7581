// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Everything known about a worker's failure, as plain values. Code in io/ collects it; diagnosis
// interprets it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/workers/supervisor.h"
#include "proto/result.h"

namespace cpprun {

// Why a Python module may not have been found. The evidence collector fills this in from disk; the
// functions below are pure.
struct ModuleSight {
  std::string similar = {};  // a similarly named module on Python's path, as "pkg.utils"
  std::string own_package =
      {};                      // the first part of its name, if that is a package beside the script
  std::string elsewhere = {};  // a directory with that module, but not on Python's path
  bool in_environment = false;  // the interpreter belongs to a virtual environment or conda
  friend bool operator==(const ModuleSight&, const ModuleSight&) = default;
};

// "pkg.utils" from the last line "ModuleNotFoundError: No module named 'pkg.utils'"; empty if there
// is none.
std::string missing_module(const std::vector<std::string>& lines);

// The name that `wanted` is most likely a misspelling of; empty if none is close.
std::string similar_name(std::string_view wanted, const std::vector<std::string>& names);

// `executable` is the program that ran. It need not be Python: it may be a shell.
std::string missing_module_advice(std::string_view name, const ModuleSight& sight,
                                  std::string_view executable);

// What a process was doing at one moment, from /proc. Taken of a worker that ignored the signal to
// stop, before SIGKILL.
struct ProcessSnapshot {
  int pid = 0;
  std::string name;                // "python3"
  char state = '?';                // as in ps: R S D T Z
  std::string wait_channel;        // kernel function it sleeps in; empty: unknown
  std::optional<int> system_call;  // number on this machine; nullopt: none or not readable
  int threads = 1;
  std::vector<std::string> kernel_stack;  // innermost first; empty: not readable
};

// "train (pid 42) was in state S (sleeping), in futex_wait_queue, system call futex, 8 threads".
std::string to_text(const ProcessSnapshot& look);

// "futex"; the number if the name is not in the table.
std::string system_call_name(int number);

// Describes a process state, e.g. 'D' as uninterruptible sleep in the kernel.
std::string state_text(char state);

// What is wrong with a file that could not be executed. More specific than the kernel's errno.
enum class ExecFault {
  none,                 // nothing was found, or no check was made
  noexec_mount,         // its file system is mounted noexec
  wrong_machine,        // a binary for another architecture
  missing_interpreter,  // of its #! line, or its dynamic loader
  no_magic,             // neither a binary nor a #! line
};

// What the machine reported around the time a worker ended.
struct HostEvidence {
  // OOM kills since the attempt began, in this job's control group and on the whole machine.
  // Unprivileged processes may be able to read only the machine's counter.
  long oom_kills = 0;
  long oom_kills_on_machine = 0;
  std::string memory_limit;             // of the control group, "4.0 GiB"; empty: none
  std::vector<std::string> full_disks;  // of the disks a worker needs: logs, TMPDIR, /dev/shm
  std::string small_shm;  // size of /dev/shm if it is the default of containers; else empty
  std::vector<std::string> kernel_lines;  // lines of the kernel's log that name its pid
  ExecFault exec_fault = ExecFault::none;
  std::string exec_detail;  // the missing interpreter, or the architecture of the binary
  std::string last_seen;    // state before SIGKILL: "was in state D (…), …"
  ModuleSight module = {};  // about the Python module that was not found
  // The configured network interface that reaches no peer, and why; else empty.
  std::string unreachable_interface = {};
  friend bool operator==(const HostEvidence&, const HostEvidence&) = default;
};

// Everything known about a worker's failure.
struct Evidence {
  Outcome outcome;
  std::string executable;               // argv[0], for failed starts
  std::string error_text;               // content of error.json; empty: not written
  std::string error_file;               // its path, if it is kept after the job
  std::vector<std::string> last_lines;  // of stderr, if cpprun has a copy of it
  bool with_stdout = false;             // `last_lines` includes stdout
  bool on_console = false;              // stderr went to cpprun's own stderr, so cpprun has no copy
  std::string stdout_file;              // log files; empty: none
  std::string stderr_file;
  HostEvidence host_facts;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// The content of a worker's error.json, in either of torchrun's two schemas.
struct WorkerError {
  // Terminal control sequences are removed from both.
  std::string message;                       // one sentence, e.g. "RuntimeError: out of memory"
  std::string traceback;                     // may be empty
  std::optional<std::int64_t> unix_seconds;  // when the worker wrote it
  friend bool operator==(const WorkerError&, const WorkerError&) = default;
};

// Malformed text is returned as an error that describes the problem. It never ends a job.
Result<WorkerError> parse_error_file(const std::string& text);

// The file's text with the exit code added, as torchrun's agent does in its own error file.
Result<std::string> with_exit_code(const std::string& text, int exit_code);

}  // namespace cpprun
