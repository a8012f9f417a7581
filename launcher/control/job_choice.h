// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Selects the job that a command is about. Read-only commands accept a prefix of the name. Commands
// that change something, and `wait`, need the whole name: a command for a job that has ended must
// not reach another job. While an endpoint does not respond, its jobs are unknown, not absent.
// Pure.

#include <cstddef>
#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun {

// A job reported by some endpoint.
struct KnownJob {
  std::string id;
  std::string place;  // its endpoint, for display
};

enum class NameMatch { whole, prefix };

struct NoJob {
  std::string sentence;
  std::string hint = {};
  bool is_unknown = false;  // it may run at an endpoint that does not respond
};

// Returns the index of the job. `wanted`: its name, or empty for the only job. `silent`: the
// endpoints that did not report their jobs.
tl::expected<std::size_t, NoJob> choose_job(const std::vector<KnownJob>& known,
                                            const std::string& wanted, NameMatch match,
                                            const std::vector<std::string>& silent = {});

// An endpoint that hosts jobs, and those jobs.
struct KnownEndpoint {
  std::string place;
  std::vector<std::string> jobs;
};

// A message for a command that names no endpoint although several could be meant.
std::string which_endpoint(const std::vector<KnownEndpoint>& known);

// The id escaped for a URL: "a%2Fb" for "a/b".
std::string escaped(const std::string& id);

}  // namespace cpprun
