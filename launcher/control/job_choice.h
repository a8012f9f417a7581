// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which job a command is about. Commands that only read take the beginning of a name. Commands that
// change something, and `wait`, take the whole name: a command for a job that has ended must not
// reach another job. While a place does not respond, its jobs are unknown, not absent. Pure.

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

enum class NameMatch { whole, prefix };

struct NoJob {
  std::string sentence;
  std::string hint = {};
  bool is_unknown = false;  // it may run at a place that does not respond
};

// The index of the job. `wanted`: its name; empty: the only job there is. `silent`: the places that
// did not show their jobs.
tl::expected<std::size_t, NoJob> choose_job(const std::vector<KnownJob>& known,
                                            const std::string& wanted, NameMatch match,
                                            const std::vector<std::string>& silent = {});

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
