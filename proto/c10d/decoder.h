// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Bytes of a store client → requests. The protocol has no frames: where a request ends is known
// only from reading it. A request may arrive in any pieces; it is looked at again only when enough
// of it has come, and a claimed length is checked against its limit before anybody allocates.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/c10d/dialect.h"
#include "proto/c10d/request.h"

namespace cpprun::c10d {

// What is remembered of a connection from one request to the next.
struct Conversation {
  Dialect dialect = Dialect::undecided;
  bool has_spoken = false;  // a whole request was decoded
  friend bool operator==(const Conversation&, const Conversation&) = default;
};

// How far an incomplete request has been looked at. Starts anew with each request.
struct Progress {
  std::size_t checked = 0;        // bytes that need not be looked at again
  std::uint64_t fields_left = 0;  // of a request that names many keys
};

// A request of `size` bytes. Its views point into the bytes and into the decoder.
struct Complete {
  Request request;
  std::size_t size = 0;
};
// Not worth asking again before the request's first `size` bytes are there.
struct NeedMore {
  std::size_t size = 0;
};
// Either a whole DELETE_KEY of dialect A, or the first half of an APPEND of dialect B. Ask again
// when more bytes have come, or after bounds::store_dialect_grace with `grace_over`.
struct Ambiguous {};
// Never going to be a request. The reason is a clause, e.g. "unknown opcode 71".
struct Malformed {
  std::string reason;
};
using Decoded = std::variant<Complete, NeedMore, Ambiguous, Malformed>;

// One decoder serves any number of connections; it keeps nothing of them but scratch space.
class Decoder {
 public:
  // `bytes` is what has come of this request (and maybe of the next ones).
  Decoded decode(std::string_view bytes, Conversation& conversation, Progress& progress,
                 bool grace_over = false);

 private:
  std::vector<Bytes> keys_;
  std::vector<KeyValue> entries_;
};

}  // namespace cpprun::c10d
