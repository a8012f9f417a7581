// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What was typed, read into a Wish.

#include <string>
#include <string_view>
#include <variant>

#include "launcher/control/wish.h"

namespace cpprun {

// What is to be printed, and the exit code: on stdout where that is 0.
struct ControlEnd {
  int exit_code = 0;
  std::string text;
};

std::variant<Wish, ControlEnd> read_control_line(int argc, const char* const* argv,
                                                 std::string_view version);

}  // namespace cpprun
