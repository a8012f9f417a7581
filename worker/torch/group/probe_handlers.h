// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

// What a handler of PyTorch's worker server answers in this process, such as "fr_trace_json" with
// the flight record of its process groups. nullopt: this LibTorch has no such handler, or it fails.
std::optional<std::string> torch_handler_answer(std::string_view name);

}  // namespace cpprun
