// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One staged failure: what is launched, and what cpprun has to say of it.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun::failures {

// What a failure needs of the machine, beyond what every machine has.
enum class Needs {
  nothing,
  root,          // and a mount namespace of its own
  memory_group,  // a memory control group of version 1 that can be made
  python,        // a Python
  torch,         // a Python with torch
};

struct Staged {
  std::string name;
  std::vector<std::string> program;  // what cpprun is given after its own options
  std::string cause;                 // the id that has to be found
  std::string advice;                // words that have to be in the advice
  int rank = 1;                      // that has to be named
  std::string message = {};          // words that have to be in the message; may be empty
  Needs needs = Needs::nothing;
  std::vector<std::string> options = {};  // of cpprun, beside those that all have
  std::string before = {};                // a shell command, run first in the same namespaces
  bool two_nodes = false;                 // one worker on each of two, else two on one
};

// Where a test's own files are, and what they are made of.
struct Stage {
  std::string directory;
  std::string victim;
  std::string python;
};

std::vector<Staged> crashes(const Stage& stage);        // the victim's own
std::vector<Staged> false_starts(const Stage& stage);   // what cannot be executed or loaded
std::vector<Staged> python_errors(const Stage& stage);  // scripts
std::vector<Staged> lost_peers(const Stage& stage);     // one dies, others complain

// A file in the stage's directory; its path.
std::string file(const Stage& stage, const std::string& name, const std::string& text,
                 bool executable = false);
std::string fifo(const Stage& stage, const std::string& name);

}  // namespace cpprun::failures
