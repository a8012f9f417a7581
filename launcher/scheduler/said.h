// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reading what schedulers write: machines' words, so what is not as expected counts as not said.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/scheduler/scheduler_facts.h"
#include "proto/environment.h"

namespace cpprun {

// The first of these variables that is a whole number from `lowest`.
std::optional<Said<int>> said_number(const Environment& environment, int lowest,
                                     std::initializer_list<std::string_view> names);

// The first of these variables that is not empty.
std::optional<Said<std::string>> said_text(const Environment& environment,
                                           std::initializer_list<std::string_view> names);

// A port from 20000 to 29999, which no kernel hands out by itself: the same wherever the text is
// the same, and with luck another for another job.
int port_of(std::string_view text);

// "8 tasks on this node (X)".
std::string tasks_here(const Said<int>& tasks);

// "mpirun started 8 tasks on this node (X), and cpprun wants one on each node …: " and the cure.
std::string crowded_text(std::string_view starter, std::string_view tasks, std::string_view cure);

// The hosts of a file with one a line, in its order, each once. PBS names a host for each of its
// processors.
std::vector<std::string> hosts_of_lines(std::string_view text);

}  // namespace cpprun
