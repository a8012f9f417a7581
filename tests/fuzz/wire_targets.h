// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Data that arrives over the network (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void store_requests(std::string_view bytes);
void store_replies(std::string_view bytes);
void link_frames(std::string_view bytes);
void coordinator_link(std::string_view bytes);
void sniffed_bytes(std::string_view bytes);
void http_requests(std::string_view bytes);

}  // namespace cpprun::fuzz
