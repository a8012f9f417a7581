// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The address of a coordinator: a host and a port, in all common notations. Handles IPv6 with and
// without brackets. Does not resolve names.

#include <string>
#include <string_view>
#include <vector>

#include "proto/result.h"

namespace cpprun {

struct Endpoint {
  std::string host;  // name or literal address, never in brackets
  int port = 0;      // 0: not chosen yet
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Parses `host`, `host:port`, `1.2.3.4:port`, `[v6]`, `[v6]:port` and a bare IPv6 address such as
// `2001:db8::1`, whose last group is never taken for a port.
Result<Endpoint> parse_endpoint(std::string_view text, int port_default);

// Parses a list such as "a:29400,b:29400", keeping the order. At least one, no duplicates.
Result<std::vector<Endpoint>> parse_endpoints(std::string_view text, int port_default);

// Parses a host as in --master-addr: without a port; brackets are removed.
Result<std::string> parse_host(std::string_view text);

// As typed by a user: a host with a colon is put in brackets.
std::string to_string(const Endpoint& endpoint);

// Several endpoints, as "a:29400, b:29400".
std::string to_string(const std::vector<Endpoint>& endpoints);

// True for names and addresses that always refer to this machine: localhost, 127.0.0.0/8, ::1.
bool is_loopback(std::string_view host);

}  // namespace cpprun
