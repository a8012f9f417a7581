// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The common parts of the launch benchmarks: starting cpprun, torchrun and the bare launcher with
// the same worker, reading the workers' stamps, and printing rows of a table.

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/launch_stamp.h"

namespace cpprun::bench {

using Words = std::vector<std::string>;

// Given on the command line, as --cpprun P --bare P --worker P [--python P] [--rounds N]
// [--peer-rounds N] [--seconds N] [--other P] [--back-to-back N].
struct Setup {
  std::string cpprun, bare, worker, python;
  std::string other;  // another build of cpprun, to compare with this one
  int rounds = 31;
  int back_to_back = 40;  // launches without a pause
  int peer_rounds = 3;    // torchrun takes seconds
  int seconds = 10;       // of idling
  std::string stamps;     // the file that the workers append to
};

// Exits with a message if an argument is missing.
Setup read_setup(int count, char** words);

enum class Who { bare, cpprun, torchrun, other };
const char* name_of(Who who);
// The launchers that can take part: torchrun needs a Python.
std::vector<Who> participants(const Setup& setup);
bool takes_part(const Setup& setup, Who who, int round);

// The command that starts one node with so many workers, and their arguments.
Words command(const Setup& setup, Who who, int workers, const Words& options,
              const std::string& mode);

// The arguments with which torchrun and cpprun meet at an endpoint on this machine.
Words meeting_at(const std::string& port);
// A port without a listener.
std::string free_port();

// A program that was started; its output is discarded, or only its stderr is read.
struct Started {
  pid_t pid = -1;
  int error_pipe = -1;  // if requested
};
Started start(const Words& words, bool with_error_pipe = false);
// Waits for its end, and reports a failure.
void wait_for(pid_t pid);
// Asks it to end, and insists after ten seconds.
void end(pid_t pid);

double milliseconds_now();
double milliseconds_of(const Stamp& stamp);
double median(std::vector<double> values);
std::vector<Stamp> read_stamps(const std::string& path);
// Blocks until that many workers were executed; bounded, because a launcher may have failed.
bool wait_for_stamps(const std::string& path, std::size_t wanted, double seconds = 60);
// When the last of them was executed, if any was after `since`.
std::optional<double> last_executed(const std::string& path, double since);

}  // namespace cpprun::bench
