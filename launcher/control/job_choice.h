// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which job is meant: the one that there is, the one of that name, or the only one whose name
// begins so. Pure.

#include <cstddef>
#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// One that somebody has shown.
struct KnownJob {
  std::string id;
  std::string place;  // where, for people
};

// The index of it; else a sentence that lists what there is.
Result<std::size_t> choose_job(const std::vector<KnownJob>& known, const std::string& wanted);

// Somebody who hosts jobs, and which.
struct KnownPlace {
  std::string place;
  std::vector<std::string> jobs;
};

// A sentence for an order that could go to any of them, and says not to whom.
std::string which_place(const std::vector<KnownPlace>& known);

// The id as a part of an address: "a%2Fb" of "a/b".
std::string escaped(const std::string& id);

}  // namespace cpprun
