// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every agent is sent must stay small whatever the size of the world: a Finish is said to ten
// thousand nodes at once. The agent of the master, whose link is a call, hears all of it.

#include "proto/link/message.h"

namespace cpprun::link {

// The same end in a frame of at most bounds::round_frame_bytes_max: sentences are cut, and of the
// consequences only those are named that still fit. Their count stays true.
Finish brief(Finish finish);

}  // namespace cpprun::link
