// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where cpprunctl prints.

#include <string_view>

#include "launcher/table.h"
#include "proto/environment.h"

namespace cpprun::io {

// As wide as the terminal, where stdout is one; colour there alone, and not with NO_COLOR.
Canvas canvas_of_stdout(const Environment& environment);
std::size_t height_of_terminal();

// False where the reader has closed the pipe. Output that is lost ends the process with 1.
bool print(std::string_view text);
// A sentence on stderr, with the program's name before it; a hint is a second line.
void complain(std::string_view sentence, std::string_view hint = {});

}  // namespace cpprun::io
