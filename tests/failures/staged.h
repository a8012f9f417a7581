// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One staged failure: what is launched, and what cpprun has to report.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun::failures {

// What a failure needs of the machine, beyond the basics.
enum class Needs {
  nothing,
  root,          // and a mount namespace of its own
  memory_group,  // a memory control group of version 1 that can be made
  python,        // a Python
  torch,         // a Python with torch
};

struct Staged {
  std::string name;
  std::vector<std::string> program;  // after cpprun's own options
  std::string cause;                 // the expected id
  std::string advice;                // text expected in the advice
  int rank = 1;                      // the expected rank
  std::string message = {};          // text expected in the message; may be empty
  Needs needs = Needs::nothing;
  std::vector<std::string> options = {};  // extra options of cpprun
  std::string before = {};                // a shell command, run first in the same namespaces
  bool two_nodes = false;                 // one worker on each of two, else two on one
};

// Where a test's own files are, and the programs they use.
struct Stage {
  std::string directory;
  std::string victim;
  std::string python;
};

std::vector<Staged> crashes(const Stage& stage);        // the victim's own
std::vector<Staged> false_starts(const Stage& stage);   // what cannot be executed or loaded
std::vector<Staged> python_errors(const Stage& stage);  // scripts
std::vector<Staged> lost_peers(const Stage& stage);     // one dies, others complain

// Writes a file into the stage's directory; returns its path.
std::string file(const Stage& stage, const std::string& name, const std::string& text,
                 bool executable = false);
std::string fifo(const Stage& stage, const std::string& name);

}  // namespace cpprun::failures
