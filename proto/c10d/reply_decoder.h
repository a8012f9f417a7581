// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Bytes of a server → replies, for clients. A reply does not say what it is: that follows from the
// request it answers, so the client says what it expects.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/c10d/request.h"

namespace cpprun::c10d {

enum class ReplyKind : std::uint8_t {
  none,  // SET and its like are not answered
  pong,
  value,
  number,
  checked,
  waited,
  values,  // as many as keys were asked for
  popped,
  keys,
};

// What answers a request, and, for MULTI_GET, how many values.
struct Expected {
  ReplyKind kind = ReplyKind::none;
  std::uint64_t count = 0;
  friend bool operator==(const Expected&, const Expected&) = default;
};
Expected expected_of(const Request& request);

// A reply of `size` bytes; its views point into the bytes and into the decoder.
struct CompleteReply {
  Reply reply;
  std::size_t size = 0;
};
// Not worth asking again before `size` bytes are there.
struct NeedMoreReply {
  std::size_t size = 0;
};
// Not what was expected; the reason is a clause.
struct MalformedReply {
  std::string reason;
};
using DecodedReply = std::variant<CompleteReply, NeedMoreReply, MalformedReply>;

class ReplyDecoder {
 public:
  DecodedReply decode(std::string_view bytes, const Expected& expected);

 private:
  std::vector<Bytes> texts_;
};

}  // namespace cpprun::c10d
