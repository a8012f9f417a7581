// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The catalogue of causes: why a worker ended, in a sentence, and what a person can do about it.
// cause_rules.cpp says which evidence points at which cause; docs/failures.md explains how the two
// make a verdict and how to add to them.

#include <span>
#include <string_view>

namespace cpprun {

struct Cause {
  std::string_view id;        // short, stable, for machines: "out_of_memory"
  std::string_view sentence;  // a clause: "the kernel ended it because memory ran out"
  std::string_view advice;    // what to do; {program} stands for the path that was executed
  // It follows from somebody else's end: the reason has to be looked for there.
  bool consequence = false;
};

std::span<const Cause> causes();

// Nothing where nobody knows that id: it may come from a newer cpprun on another node.
const Cause* find_cause(std::string_view id);

}  // namespace cpprun
