// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What was typed, read into a Wish.

#include <string_view>
#include <variant>

#include "launcher/control/wish.h"
#include "rendezvous/command_line.h"

namespace cpprun {

std::variant<Wish, CommandLineEnd> read_control_line(int argc, const char* const* argv,
                                                     std::string_view version);

}  // namespace cpprun
