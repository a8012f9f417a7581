// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Resolves host names. The launcher resolves names only here, only at the start, and only on a node
// that may host the coordinator. meeting_place.h decides what the addresses mean.

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proto/result.h"

namespace cpprun::io {

// The address in canonical form if `host` is a literal address; otherwise nullopt.
std::optional<std::string> literal_address(const std::string& host);

// The literal addresses of a host: itself if it is a literal, otherwise what its name resolves to.
// Empty if it does not resolve.
std::vector<std::string> addresses_of(const std::string& host);

// The asynchronous form: `found` is called from the event loop, never from inside this call, with
// at least one address or an error.
void look_up(asio::io_context& context, const std::string& host,
             std::function<void(const Result<std::vector<std::string>>&)> found);

}  // namespace cpprun::io
