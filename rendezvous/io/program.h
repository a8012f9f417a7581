// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every program does at its start: standard streams, signals, memory and priority.

#include <functional>
#include <string>
#include <string_view>

namespace cpprun {

// What each of our programs relies on: descriptors 0 to 2 are taken, a write that cannot be done
// fails, output that is lost is not success, no signal is blocked or ignored because its parent
// did so, and an uncaught exception ends it with a message.
// Calls `body` with all of that, and gives its exit code; after an exception 1, with a line on
// stderr that begins with the name.
//
// `is_continued`: another program in this process has done all of this. Its signals stay blocked:
// those that came meanwhile wait for `body`.
int run_program(std::string_view name, const std::function<int()>& body, bool is_continued = false);

// A closed standard descriptor would be given to the next thing that is opened, a client's socket
// for instance, and messages for a person would be written there. Writes to a stdout that was
// closed go on failing.
void fill_standard_streams();
// For a program whose workers inherit stdout: a stdout that was closed becomes /dev/null.
void open_missing_stdout();

// Writes to stdout. Gives false where the reader has closed the pipe, as `head` does. Where the
// text is lost otherwise (a full disk, a closed stdout), says so and ends the process with 1.
bool print_or_exit(std::string_view program, std::string_view text);
// The same where errno says why a write to stdout has failed.
[[noreturn]] void exit_for_lost_output(std::string_view program);

// From now on a vanished reader, or a file at its limit (ulimit -f), is an error of the write and
// not the end of the process.
void survive_failed_writes();

// Unblocks all signals and resets SIGCHLD: where a parent has ignored that, the exit codes of
// children are lost. Signals that ask for the end stay ignored, as nohup(1) and shells arrange it.
void reset_inherited_signals();

// The name of this machine, as the kernel knows it.
std::string machine_name();

// Keeping leases is little work that has to be done in time, even on a machine short of everything.
// So its pages stay in memory and its turn comes early, as far as the kernel allows.
struct MemoryAndPriority {
  bool locked = false;  // what is in memory now stays there
  bool raised = false;  // before processes of ordinary priority
};

MemoryAndPriority lock_memory_and_priority();

}  // namespace cpprun
