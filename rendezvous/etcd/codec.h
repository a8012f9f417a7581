// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Requests and answers as the JSON of etcd's gateway: numbers of 64 bits are texts, keys and values
// base64, whatever is false, zero or empty is not there, and a failure has one of three shapes.
// What answers is believed no further than proto/etcd_bounds.h says, and never throws out of here.

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
// What was answered to that request.
Heard read_answer(const Request& request, unsigned http_status, std::string_view body);

}  // namespace cpprun::etcd

// Bytes as the JSON of etcd's gateway has them: RFC 4648, the common alphabet, padded.

namespace cpprun {

std::string base64_of(std::string_view bytes);
// Nothing where that is not what they are, to the last bit.
std::optional<std::string> bytes_of_base64(std::string_view text);

}  // namespace cpprun
