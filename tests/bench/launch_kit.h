// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the benchmarks of launching share: starting cpprun, torchrun and the bare launcher with the
// same worker, reading what the workers have stamped, and saying it in rows of a table.

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
  std::string other;  // another build of cpprun, to be compared with this one
  int rounds = 31;
  int back_to_back = 40;  // launches without a pause
  int peer_rounds = 3;    // torchrun takes seconds
  int seconds = 10;       // of standing idle
  std::string stamps;     // the file that the workers append to
};

// Ends the program with a sentence where something is missing.
Setup read_setup(int count, char** words);

enum class Who { bare, cpprun, torchrun, other };
const char* name_of(Who who);
// Those who can take part: torchrun needs a Python.
std::vector<Who> everybody(const Setup& setup);
bool takes_part(const Setup& setup, Who who, int round);

// The command that starts one node with so many workers, and what these are to do.
Words command(const Setup& setup, Who who, int workers, const Words& options,
              const std::string& mode);

// What makes torchrun and cpprun meet at an endpoint on this machine.
Words meeting_at(const std::string& port);
// Nobody listens there now.
std::string free_port();

// A program that was started; what it writes is not read, or only its stderr.
struct Started {
  pid_t pid = -1;
  int error_pipe = -1;  // where asked for
};
Started start(const Words& words, bool with_error_pipe = false);
// Waits for its end, and says so where it was a bad one.
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
