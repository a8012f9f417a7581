// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an order says in the body of its request, as JSON (docs/operating.md), and its answer.

#include <string>

#include "proto/result.h"
#include "rendezvous/job/order.h"

namespace cpprun {

// Fills in what the body says of an order of that kind; it may be empty. Fails with a sentence that
// names what is wrong.
Result<void> read_order(const std::string& body, Order& order);

// {"said": …} of what was done, {"error": …} of what was not.
std::string outcome_json(const OrderOutcome& outcome);

}  // namespace cpprun
