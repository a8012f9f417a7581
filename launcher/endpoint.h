// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where a master is met: a host and a port, in the spellings people use for them. Knows IPv6, with
// and without brackets; resolves nothing.

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

// Reads `host`, `host:port`, `1.2.3.4:port`, `[v6]`, `[v6]:port` and a bare IPv6 address such as
// `2001:db8::1`, whose tail is never taken for a port.
Result<Endpoint> parse_endpoint(std::string_view text, int port_default);

// The places of a set, "a:29400,b:29400", in that order: one or more, each of them once.
Result<std::vector<Endpoint>> parse_endpoints(std::string_view text, int port_default);

// A host as in --master-addr: no port allowed, brackets taken off.
Result<std::string> parse_host(std::string_view text);

// As a person would type it: brackets around a host that holds a colon.
std::string to_string(const Endpoint& endpoint);

// The same of several: "a:29400, b:29400".
std::string to_string(const std::vector<Endpoint>& endpoints);

// True for names and addresses that can only mean this machine: localhost, 127.0.0.0/8, ::1.
bool is_loopback(std::string_view host);

}  // namespace cpprun
