// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Requests and replies as the JSON of etcd's gRPC gateway: 64-bit numbers are strings, keys and
// values are base64, members that are false, zero or empty are omitted, and errors come in three
// shapes. A reply is trusted only within the limits of rendezvous/etcd/bounds.h. Nothing here
// throws to the caller.

#include <tl/expected.hpp>

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/etcd/etcd_request.h"

namespace cpprun::etcd {

struct Post {
  std::string_view path;
  std::string body;
};
Post to_post(const Request& request);

using Heard = tl::expected<Answer, Failure>;
// Parses the reply to that request.
Heard read_answer(const Request& request, unsigned http_status, std::string_view body);

}  // namespace cpprun::etcd

// Base64 as the JSON of etcd's gateway uses it: RFC 4648, the standard alphabet, padded.

namespace cpprun {

std::string base64_of(std::string_view bytes);
// Empty unless the text is the canonical encoding of some bytes.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace cpprun
