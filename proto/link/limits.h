// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a frame may say at most. The bytes of a frame come from whoever has reached the port, so a
// number that no cpprun ever says, or a text longer than any it sends, ends the link: what has
// passed here can be counted with, printed and kept. Numbers that a person may have typed (the
// terms of a job) pass, and are refused aloud by whoever hosts the job
// (rendezvous/job/join_check.h).

#include <chrono>
#include <optional>
#include <string>

#include "proto/link/message.h"

namespace cpprun::link {

// A watch may be asked for as long as an unhurried heartbeat and its answer may take.
inline constexpr auto watch_time_max = std::chrono::hours(1);

// "status=256, which cannot be", or nothing where all of it can be.
std::optional<std::string> beyond_limits(const Message& message);

}  // namespace cpprun::link
