// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Replies → bytes, for the server; requests → bytes, for clients and tests. Both append, so that
// many of them leave in one write.

#include <cstdint>
#include <string>

#include "proto/c10d/dialect.h"
#include "proto/c10d/request.h"

namespace cpprun::c10d {

// Replies look alike in every dialect.
void encode(const Reply& reply, std::string& out);

// What encode() would append, in bytes; asked first where a reply may be refused for its size.
std::uint64_t encoded_size(const Reply& reply);

// False, with nothing appended, where the dialect (a, b or d) does not have that operation.
bool encode(const Request& request, Dialect dialect, std::string& out);

}  // namespace cpprun::c10d
