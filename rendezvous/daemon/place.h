// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where a cpprund is met (Place), and what it is called among the others.

#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

// Where a cpprund is met, as it is written: "10.0.0.1:29400", "[fd00::1]:29400", "host:29400".
struct Place {
  std::string host;  // a name or a literal address, never in brackets
  int port = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// torchrun's for a rendezvous endpoint that names none.
inline constexpr int place_port_default = 29400;

// Without a port it is that one. An error is a clause that completes "the place …".
Result<Place> parse_place(std::string_view text, int port_default = place_port_default);
std::string to_string(const Place& place);

// An address in digits, and not the one that means all of a machine.
bool is_one_address(std::string_view host);

// Of one that may be none: then nobody's.
std::string host_of_place(std::string_view place);
int port_of_place(std::string_view place);

// What one of several cppruns is called among the others: its name, and which of its lives this is.
// What one of them has in its memory is gone when it is begun anew: then it is another one, which
// nobody takes for the one that had everything. One that has found everything in its folder
// (--state) is the same.

inline constexpr char life_mark = '#';

// "a#5f2a9c01d3e4b677"
std::string member_name(std::string_view name, std::string_view life);
// "a", as people have named it.
std::string_view called(std::string_view member);

}  // namespace cpprun
