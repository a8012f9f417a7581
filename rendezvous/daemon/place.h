// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The address of a cpprund (Place), and the name by which the members of a cluster know it.

#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

// Written as "10.0.0.1:29400", "[fd00::1]:29400" or "host:29400".
struct Place {
  std::string host;  // host name or literal address, without brackets
  int port = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// torchrun's default port for a rendezvous endpoint.
inline constexpr int place_port_default = 29400;

// `port_default` applies if `text` has no port. The error completes "the place …".
Result<Place> parse_place(std::string_view text, int port_default = place_port_default);
std::string to_string(const Place& place);

// True for a literal address other than the wildcards 0.0.0.0 and ::.
bool is_one_address(std::string_view host);

// Empty, or 0, if `place` is not a valid place.
std::string host_of_place(std::string_view place);
int port_of_place(std::string_view place);

// A member is identified by its name and a life, an id that changes when it restarts with an empty
// memory. Such a member has lost what it had replicated, so the new id keeps other members from
// assuming that it is in sync. A member that found all its state in its --state directory
// keeps its id.

inline constexpr char life_mark = '#';

// "a#5f2a9c01d3e4b677"
std::string member_name(std::string_view name, std::string_view life);
// The name without the life: "a".
std::string_view called(std::string_view member);

}  // namespace cpprun
