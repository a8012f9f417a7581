// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a program that runs for days may rely on: descriptors 0 to 2 are taken.

namespace cpprun {

// A descriptor that was closed before our time would be given to the next thing that is opened, a
// client's socket for instance, and what is meant for a person would be written there.
void fill_standard_streams();

}  // namespace cpprun
