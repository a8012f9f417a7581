// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Bytes that anybody may send to a store, taken through all of a server but its sockets.

#include <string>
#include <string_view>

#include "proto/c10d/request.h"

namespace cpprun::fuzz {

// What one connection hears for these bytes when they come in pieces of that size, and how it
// ended. Throws BrokenPromise when the sessions or the store break a promise of theirs.
std::string session(std::string_view bytes, std::size_t piece_size, c10d::Dialect dialect);

}  // namespace cpprun::fuzz
