// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The codec of the store protocol: bytes to requests (Decoder) and to replies (ReplyDecoder), and
// both back to bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/bounds.h"
#include "proto/c10d/request.h"

namespace cpprun::c10d {

// Reads the primitive fields of the protocol one after another, and remembers what stopped it: too
// few bytes, or a length beyond its limit. Shared by the decoders of requests and of replies.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::size_t at,
         std::uint64_t bytes_max = bounds::store_request_bytes_max)
      : bytes_(bytes), at_(at), bytes_max_(bytes_max) {}

  std::size_t at() const { return at_; }
  // Bytes that must be there before the field that stopped the cursor is whole.
  std::size_t needed() const { return needed_; }
  // Not empty: a length was beyond its limit.
  const std::string& refusal() const { return refusal_; }

  // Integers are little-endian on the wire, as on every machine PyTorch ships for.
  template <class Integer>
  bool integer(Integer& out) {
    if (!has(sizeof out)) return false;
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return true;
  }
  // How many keys follow; beyond the limit it is refused before any of them is there.
  bool count(std::uint64_t& out) {
    if (!integer(out)) return false;
    if (out <= bounds::store_keys_per_request_max) return true;
    refuse_count(out);
    return false;
  }
  bool key(std::string_view& out) { return text(out, bounds::store_key_bytes_max, "key"); }
  bool value(std::string_view& out) { return text(out, bounds::store_value_bytes_max, "value"); }

 private:
  bool has(std::size_t count) {
    if (bytes_.size() - at_ >= count) return true;
    needed_ = at_ + count;
    return false;
  }

  bool text(std::string_view& out, std::uint64_t limit, const char* what) {
    const std::size_t start = at_;
    std::uint64_t length = 0;
    if (!integer(length)) return false;
    if (length > limit || at_ + length > bytes_max_) {
      refuse(what, length, limit);
      return false;
    }
    if (!has(length)) {
      // The field is looked at again as a whole.
      at_ = start;
      return false;
    }
    out = bytes_.substr(at_, length);
    at_ += length;
    return true;
  }

  void refuse_count(std::uint64_t count);
  void refuse(const char* what, std::uint64_t length, std::uint64_t limit);

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::uint64_t bytes_max_ = 0;  // of the whole request or reply
  std::size_t needed_ = 0;
  std::string refusal_;
};

// Bytes of a store client → requests. The protocol has no frames: where a request ends is known
// only from reading it. A request may arrive in any pieces; it is looked at again only when enough
// of it has come, and a claimed length is checked against its limit before anybody allocates.

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

// Bytes of a server → replies, for clients. A reply does not say what it is: that follows from the
// request it answers, so the client says what it expects.
class ReplyDecoder {
 public:
  DecodedReply decode(std::string_view bytes, const Expected& expected);

 private:
  std::vector<Bytes> texts_;
};

// Replies → bytes, for the server; requests → bytes, for clients and tests. Both append, so that
// many of them leave in one write.

// Replies look alike in every dialect.
void encode(const Reply& reply, std::string& out);

// What encode() would append, in bytes; asked first where a reply may be refused for its size.
std::uint64_t encoded_size(const Reply& reply);

// False, with nothing appended, where the dialect (a, b or d) does not have that operation.
bool encode(const Request& request, Dialect dialect, std::string& out);

}  // namespace cpprun::c10d
