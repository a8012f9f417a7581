// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which evidence points at which cause: the written rules, and how they are asked.
//
// A rule is a set of conditions, all of which must hold. They are plain: an exit code, a signal, an
// errno, a fact about the machine, words the worker is known to have said. `judge_cause` asks kinds
// of evidence from the surest to the weakest; within one kind, rules are tried from the top, so
// special ones stand before general ones.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failure/evidence.h"

namespace cpprun {

// A fact of the machine that a rule may ask for.
enum class Fact {
  none,             // the rule asks for no fact
  oom_kill,         // the kernel ended somebody in this job's control group for memory
  oom_kill_nearby,  // it did so somewhere on this machine
  shm_full,         // /dev/shm is full
  shm_small,        // /dev/shm is as small as containers have it by default
  disk_full,        // any of the disks a worker needs is
};

// How a worker came to its end, as the rules see it.
struct EndRule {
  std::string_view cause;
  int error_number = 0;                         // of a start that failed
  bool any_stage = false;                       // at whatever stage; else it is about the program
  ExecFault exec_fault = ExecFault::none;       // and what was found wrong with the file
  int signal = 0;                               // that ended it, and was not ours
  int code = 0;                                 // with which it exited
  Fact fact = Fact::none;                       // that has to hold as well
  std::array<std::string_view, 4> kernel = {};  // the kernel's log has one of these
};

// Words in one line of what a worker said last, or in its error file.
struct WordRule {
  std::string_view cause;
  std::array<std::string_view, 6> said = {};  // one of these is in the line
  std::array<std::string_view, 6> also = {};  // and one of these, where there are any
};

std::span<const EndRule> end_rules();
std::span<const WordRule> word_rules();

struct Verdict {
  std::string_view cause;  // an id of causes.h; empty where nothing is known
  std::string line;        // what the worker said that pointed at it; may be empty
};

// What wrote the message of an error file, as far as can be told.
enum class Recorder { unknown, python, cpp };

// What a worker said about its end, in order.
struct WorkerOutput {
  std::string recorded;  // the message of its error file; may be empty
  Recorder recorder = Recorder::unknown;
  std::vector<std::string> lines;  // the last lines of its stderr
};

Verdict judge_cause(const Evidence& evidence, const WorkerOutput& worker_output);

// The line with which an uncaught Python exception ends its traceback; empty where there is none.
std::string python_exception(const std::vector<std::string>& lines);

// What a line of words points at; empty where no rule knows it.
std::string_view cause_of_words(std::string_view line);

}  // namespace cpprun
