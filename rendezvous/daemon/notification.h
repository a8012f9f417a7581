// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a service manager is told by the protocol of sd_notify(3), and where it listens. Pure.

#include <cstddef>
#include <string>
#include <string_view>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// A path in a socket's address ends with a zero; a name without a file does not, but systemd takes
// none that is longer either.
inline constexpr std::size_t notify_name_bytes_max = 107;

// The name of the manager's socket as the kernel takes it: a path, or a zero and a name without a
// file. Empty: nobody wants to be told. Fails with why what the environment says is no such name.
Result<std::string> notify_address(const Environment& environment);

// One datagram each.
std::string ready_message(std::string_view address);
std::string stopping_message();

}  // namespace cpprun
