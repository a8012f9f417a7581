// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// From where the node that hosts the coordinator is seen by the others, which is what a link tells
// everybody else. Pure: the runtime looks names up and asks for the way to an address.

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/agent_actions.h"
#include "launcher/config.h"
#include "proto/result.h"

namespace cpprun {

// What is known without asking a name server, which a job of one node never waits for; `literal` is
// the master's host, where that is an address. Absent: the name has to be looked up.
std::optional<agent::LinkUp> place_alone(const Config& config,
                                         const std::optional<std::string>& literal);

// Once that is done: the addresses it stands for, at least one, and from which of ours the first of
// them is reached.
agent::LinkUp place_among_nodes(const std::vector<std::string>& addresses,
                                const Result<std::string>& way);

}  // namespace cpprun
