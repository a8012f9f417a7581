// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The addresses behind a host name. Names are resolved here and nowhere else in the launcher, and
// only at the start, by a node that may be the master. What they mean is decided in
// meeting_place.h.

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun::io {

// The address in its usual spelling, where the host is one and no name.
std::optional<std::string> literal_address(const std::string& host);

// The literal addresses a host stands for: itself where it is one, otherwise what its name resolves
// to; nothing where it does not resolve.
std::vector<std::string> addresses_of(const std::string& host);

// The same without waiting: told from the loop, never from inside this call. At least one address,
// or why there is none.
void look_up(asio::io_context& context, const std::string& host,
             std::function<void(const Result<std::vector<std::string>>&)> found);

}  // namespace cpprun::io
