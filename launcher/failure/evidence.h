// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Everything known about a worker's bad end, as values. io/ collects it, diagnosis judges it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/workers/supervisor.h"
#include "proto/result.h"

namespace cpprun {

// A Python module that was not found: its name, and the advice, by the modules beside the script.
// Pure: the evidence collector looks at the disk.
struct ModuleSight {
  std::string similar = {};  // a module of a similar name where Python looks, as "pkg.utils"
  std::string own_package =
      {};  // the first part of its name, where that is a package beside the script
  std::string elsewhere = {};   // a directory with the very module, where Python does not look
  bool in_environment = false;  // the interpreter is a virtual environment's or conda's
  friend bool operator==(const ModuleSight&, const ModuleSight&) = default;
};

// "pkg.utils" of "ModuleNotFoundError: No module named 'pkg.utils'", the last such line; else
// empty.
std::string missing_module(const std::vector<std::string>& lines);

// The name that `wanted` is most likely a misspelling of; else empty.
std::string similar_name(std::string_view wanted, const std::vector<std::string>& names);

// `executable` ran, which need not be Python itself: it may be a shell.
std::string missing_module_advice(std::string_view name, const ModuleSight& sight,
                                  std::string_view executable);

// What a process was doing at one moment, from /proc, and the same in words: taken of a worker that
// ignored the signal to end, before it is sent KILL.
struct ProcessSnapshot {
  int pid = 0;
  std::string name;                // "python3"
  char state = '?';                // as in ps: R S D T Z
  std::string wait_channel;        // the kernel's function it sleeps in; empty: not known
  std::optional<int> system_call;  // its number on this machine; nothing: none, or not readable
  int threads = 1;
  std::vector<std::string> kernel_stack;  // innermost first; empty: not readable
};

// "train (pid 42) was in state S (sleeping), in futex_wait_queue, system call futex, 8 threads".
std::string to_text(const ProcessSnapshot& look);

// "futex"; the number where nobody here knows its name.
std::string system_call_name(int number);

// "sleeping in the kernel and not to be disturbed: …"
std::string state_text(char state);

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

// Everything known about a worker's bad end. io/ collects it, diagnosis judges it.
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

// What a worker wrote into its error.json, in either of torchrun's two schemas.
struct WorkerError {
  // Both without what a terminal would obey.
  std::string message;                       // one sentence, e.g. "RuntimeError: out of memory"
  std::string traceback;                     // may be empty
  std::optional<std::int64_t> unix_seconds;  // when the worker wrote it
  friend bool operator==(const WorkerError&, const WorkerError&) = default;
};

// Garbage is an error that says in what way; it never ends a job.
Result<WorkerError> parse_error_file(const std::string& text);

// The file's text with the exit code added, as torchrun's agent leaves it in its own error file.
Result<std::string> with_exit_code(const std::string& text, int exit_code);

}  // namespace cpprun
