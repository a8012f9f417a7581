// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The catalogue of causes: why a worker ended, in a sentence, and what the user can do about it.
// The rules in cause_rules.cpp map evidence to these causes. docs/failures.md explains how the two
// lead to a diagnosis and how to add to them.

#include <span>
#include <string_view>

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

}  // namespace cpprun
