// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which machine a host name or an address means. Names are resolved here and nowhere else in the
// launcher, and only at the start: by whoever may be the master.

#include <asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/interfaces.h"
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

// Whether the endpoint is this machine, by any of its names, aliases and addresses. Fails where it
// means others as well.
Result<bool> means_this_machine(const Config& config, const std::string& own_name,
                                const std::vector<NetworkInterface>& interfaces);

}  // namespace cpprun::io
