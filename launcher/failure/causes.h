// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The catalogue of causes (why a worker ended, in a sentence, and what the user can do about it),
// and the rules that map evidence to these causes. docs/failures.md explains how the two lead to a
// diagnosis and how to add to them.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failure/evidence.h"

namespace cpprun {

struct Cause {
  std::string_view id;        // short and stable, for scripts: "out_of_memory"
  std::string_view sentence;  // a phrase: "killed by the kernel: out of memory"
  std::string_view advice;    // what to do; {program} is replaced by the path that was executed
  // It follows from the failure of another worker. Look for the reason there.
  bool consequence = false;
};

std::span<const Cause> causes();

// Null if the id is unknown: it may come from a newer cpprun on another node.
const Cause* find_cause(std::string_view id);

// A rule is a set of conditions, all of which must hold. A condition tests one plain fact: an exit
// code, a signal, an errno, a fact about the machine, or text in the worker's output. `judge_cause`
// tries kinds of evidence from the most to the least reliable. Within one kind, the first matching
// rule wins, so specific rules come before general ones.

// A fact about the machine that a rule may require.
enum class Fact {
  none,             // the rule requires no fact
  oom_kill,         // the OOM killer killed a process in this job's control group
  oom_kill_nearby,  // the OOM killer killed a process somewhere on this machine
  shm_full,         // /dev/shm is full
  shm_small,        // /dev/shm has the small default size of containers
  disk_full,        // one of the disks that a worker needs is full
};

// Matches how a worker ended. Unset fields are not tested.
struct EndRule {
  std::string_view cause;
  int error_number = 0;    // errno of a failed start
  bool any_stage = false;  // match `error_number` at any start stage; default: exec only
  ExecFault exec_fault = ExecFault::none;  // what is wrong with the executable
  int signal = 0;          // the signal that killed it; signals sent by cpprun do not count
  int code = 0;            // exit code
  Fact fact = Fact::none;  // must hold as well
  std::array<std::string_view, 4> kernel = {};  // one of these is in the kernel's log
};

// Matches one line of the worker's last output or of its error file.
struct WordRule {
  std::string_view cause;
  std::array<std::string_view, 6> said = {};  // the line contains one of these
  std::array<std::string_view, 6> also = {};  // and, if any are given, one of these
  bool is_timeout = false;                    // PyTorch has waited for other ranks for too long
};

std::span<const EndRule> end_rules();
std::span<const WordRule> word_rules();

struct Verdict {
  std::string_view cause;  // the id of a Cause; empty if unknown
  std::string line;        // the output line that led to the cause; may be empty
};

// The language that wrote the message of an error file, as far as it can be inferred.
enum class Recorder { unknown, python, cpp };

// What a worker reported about its end.
struct WorkerOutput {
  std::string recorded;  // the message of its error file; may be empty
  Recorder recorder = Recorder::unknown;
  std::vector<std::string> lines;  // the last lines of its stderr
};

Verdict judge_cause(const Evidence& evidence, const WorkerOutput& worker_output);

// The exception line that ends the last Python traceback in `lines`; empty if there is none.
std::string python_exception(const std::vector<std::string>& lines);

// The cause that a line of output points to; empty if no rule matches.
std::string_view cause_of_words(std::string_view line);
// Whether a line says that a process group of PyTorch, its watchdog or its store timed out. Cheap.
bool shows_timeout(std::string_view line);
// Whether the last lines of a worker say that it gave up waiting for other ranks: that is the last
// line or, of a worker that has exited, any.
bool gave_up_waiting(const std::vector<std::string>& lines, bool has_exited);

}  // namespace cpprun
