// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reaches a store: resolves the name, tries every address until one answers or the time is over,
// and makes sure that what answers is a store.

#include <string>

#include "proto/clock.h"
#include "proto/result.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// A connected, non-blocking socket on which the handshake of dialect D is done. Blocks for at most
// `timeout`. The failure names the place, the time spent and what happened last.
Result<FileDescriptor> dial_store(const std::string& host, std::uint16_t port, Duration timeout);

}  // namespace cpprun
