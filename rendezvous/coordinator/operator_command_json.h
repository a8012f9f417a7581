// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The JSON body of a command's request, and of its reply (docs/operating.md).

#include <string>

#include "proto/result.h"
#include "rendezvous/job/operator_command.h"

namespace cpprun {

// Fills in `order`, whose kind is set, from the body, which may be empty. Fails with a sentence
// that names the error.
Result<void> read_command(const std::string& body, OperatorCommand& command);

// {"said": …} if the command succeeded, {"error": …} if not.
std::string outcome_json(const CommandResult& outcome);

}  // namespace cpprun
