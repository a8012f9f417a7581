// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Bytes that any client may send to a store, passed through all of a server except its sockets.

#include <string>
#include <string_view>

#include "proto/c10d/request.h"

namespace cpprun::fuzz {

// The bytes that one connection receives for these bytes in pieces of that size, and how it ended.
// Throws BrokenPromise if the sessions or the store break an invariant.
std::string session(std::string_view bytes, std::size_t piece_size, c10d::Dialect dialect);

}  // namespace cpprun::fuzz
