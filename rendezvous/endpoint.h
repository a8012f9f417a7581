// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The address of a coordinator: a host and a port, in all common notations, and the names by which
// the cpprunds of a cluster know each other. Does not resolve names.

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

// torchrun's default port for a rendezvous endpoint.
inline constexpr int rendezvous_port_default = 29400;
inline constexpr int port_max = 65535;

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

// Enough to tell a host from a typo; the resolver does the full check. A scope such as %eth0 may
// follow an IPv6 address.
bool is_host_name(std::string_view host);
bool is_ipv6(std::string_view host);

// True for names and addresses that always refer to this machine: localhost, 127.0.0.0/8, ::1.
bool is_loopback(std::string_view host);

// True for a literal address other than the wildcards 0.0.0.0 and ::.
bool is_one_address(std::string_view host);

// A place is the address of a cpprund as its members name it: "10.0.0.1:29400", "[fd00::1]:29400"
// or "host:29400". An IPv6 address needs its brackets, and the port is not 0. The error completes
// "the place …".
Result<Endpoint> parse_member_address(std::string_view text,
                                      int port_default = rendezvous_port_default);
// Empty, or 0, if `place` is not a valid place.
std::string host_of_member(std::string_view place);
int port_of_member(std::string_view place);

// A member is identified by its name and a life, an id that changes when it restarts. A restarted
// member has lost what it had replicated, so the new id keeps other members from assuming that it
// is in sync.

inline constexpr char life_mark = '#';

// "a#5f2a9c01d3e4b677"
std::string member_name(std::string_view name, std::string_view life);
// The name without the life: "a".
std::string_view called(std::string_view member);

}  // namespace cpprun
