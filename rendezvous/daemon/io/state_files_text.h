// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a folder holds, as text from the process that has read it to the one that has asked.

#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/daemon/io/state_writer.h"

namespace cpprun {

// May be said before the text, any number of times: it is on its way.
constexpr std::string_view still_reading = ".";
std::string text_of(Result<StateFiles> read);
// Whoever read may have been ended in the middle: then it counts as not read at all.
Result<StateFiles> state_files_of(std::string_view text);

}  // namespace cpprun
