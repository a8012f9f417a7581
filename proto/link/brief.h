// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every agent is sent must stay small whatever the size of the world: Sealed and Finish are
// sent to ten thousand nodes at once. The agent of the master, whose link is a call, hears all of
// it.

#include <cstddef>

#include "proto/link/message.h"

namespace cpprun::link {

// What a node's workers do, as it is told while somebody looks: eight of them fit. On a larger node
// they take turns.
inline constexpr std::size_t status_frame_bytes_max = 512;

// The same end in a frame of at most bounds::round_frame_bytes_max: sentences are cut, and of the
// consequences only those are named that still fit. Their count stays true.
Finish brief(Finish finish);

// The same seat in a frame of at most bounds::round_frame_bytes_max: the message of the failure
// before it is cut, or the failure is left out.
Sealed brief(Sealed sealed);

// The first of these workers, as many as fit a frame of status_frame_bytes_max. At least
// one does.
Status brief(Status status);

}  // namespace cpprun::link
