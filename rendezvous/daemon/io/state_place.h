// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The folder of --state as a place: made, looked at and locked. One daemon has it.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

template <class... Arguments>
tl::unexpected<Error> state_refused(fmt::format_string<Arguments...> text,
                                    Arguments&&... arguments) {
  return failure("--state: " + fmt::format(text, std::forward<Arguments>(arguments)...));
}

// Which life of this machine it is; empty where that is not to be known.
std::string own_boot();
// Fails where it cannot be had, or is open to others.
Result<FileDescriptor> open_state_folder(const std::string& path);
// Held by the writer, too: who comes next finds what was handed over last.
Result<FileDescriptor> lock_state_folder(int folder, const std::string& path, Duration patience);

}  // namespace cpprun
