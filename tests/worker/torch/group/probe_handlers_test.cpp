// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/probe_handlers.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("PyTorch's handlers answer, and there is no answer from unknown ones") {
  CHECK(torch_handler_answer("ping") == "pong");
  CHECK(torch_handler_answer("no such handler") == std::nullopt);
  // An older PyTorch has no such handler.
  if (const auto record = torch_handler_answer("fr_trace_json")) CHECK(record->starts_with("{"));
}
