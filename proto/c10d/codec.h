// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The codec of the store protocol: bytes to requests (Decoder) and to replies (ReplyDecoder), and
// back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/c10d/bounds.h"
#include "proto/c10d/request.h"

namespace cpprun::c10d {

// Reads the primitive fields of the protocol one after another. Records why it stopped: too few
// bytes, or a length beyond its limit. Shared by both decoders.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::size_t at,
         std::uint64_t bytes_max = bounds::store_request_bytes_max)
      : bytes_(bytes), at_(at), bytes_max_(bytes_max) {}

  std::size_t at() const { return at_; }
  // Bytes required before the field that stopped the cursor is complete.
  std::size_t needed() const { return needed_; }
  // Not empty: a length exceeded its limit.
  const std::string& refusal() const { return refusal_; }

  // Integers are little-endian on the wire, as on every machine PyTorch ships for.
  template <class Integer>
  bool integer(Integer& out) {
    if (!has(sizeof out)) return false;
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return true;
  }
  // The number of keys that follow; rejected at once if beyond the limit.
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
      // The next attempt reads the whole field again.
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

// Bytes of a store client → requests. The protocol has no frames: only parsing shows where a
// request ends. A request may arrive in any fragments and is parsed again only when enough bytes
// have arrived. A claimed length is checked against its limit before memory is allocated.

// The state of a connection between requests.
struct Conversation {
  Dialect dialect = Dialect::undecided;
  bool has_spoken = false;  // a complete request was decoded
  friend bool operator==(const Conversation&, const Conversation&) = default;
};

// Progress of parsing an incomplete request. Reset for each request.
struct Progress {
  std::size_t checked = 0;        // bytes that need not be parsed again
  std::uint64_t fields_left = 0;  // of a request that names many keys
};

// A request of `size` bytes. Its views refer to the input and to the decoder.
struct Complete {
  Request request;
  std::size_t size = 0;
};
// Decode again only when the first `size` bytes of the request are there.
struct NeedMore {
  std::size_t size = 0;
};
// Either a complete DELETE_KEY of dialect A, or the first half of an APPEND of dialect B. Decode
// again when more bytes have arrived, or with `grace_over` after bounds::store_dialect_grace.
struct Ambiguous {};
// Not a valid request. The reason is a clause, such as "unknown opcode 71".
struct Malformed {
  std::string reason;
};
using Decoded = std::variant<Complete, NeedMore, Ambiguous, Malformed>;

// One decoder serves any number of connections; it keeps only scratch space.
class Decoder {
 public:
  // `bytes` starts with this request and may contain later ones.
  Decoded decode(std::string_view bytes, Conversation& conversation, Progress& progress,
                 bool grace_over = false);

 private:
  std::vector<Bytes> keys_;
  std::vector<KeyValue> entries_;
};

enum class ReplyKind : std::uint8_t {
  none,  // SET and similar requests have no reply
  pong,
  value,
  number,
  checked,
  waited,
  values,  // as many as keys were requested
  popped,
  keys,
};

// The kind of reply to a request, and for MULTI_GET the number of values.
struct Expected {
  ReplyKind kind = ReplyKind::none;
  std::uint64_t count = 0;
  friend bool operator==(const Expected&, const Expected&) = default;
};
Expected expected_of(const Request& request);

// A reply of `size` bytes. Its views refer to the input and to the decoder.
struct CompleteReply {
  Reply reply;
  std::size_t size = 0;
};
// Decode again only when `size` bytes are there.
struct NeedMoreReply {
  std::size_t size = 0;
};
// Not the expected reply; the reason is a clause.
struct MalformedReply {
  std::string reason;
};
using DecodedReply = std::variant<CompleteReply, NeedMoreReply, MalformedReply>;

// Bytes of a server → replies, for clients. A reply does not carry its kind, so the client passes
// what its request expects.
class ReplyDecoder {
 public:
  DecodedReply decode(std::string_view bytes, const Expected& expected);

 private:
  std::vector<Bytes> texts_;
};

// Replies → bytes, for the server; requests → bytes, for clients and tests. Both append, so that
// many can be sent in one write.

// The same in every dialect.
void encode(const Reply& reply, std::string& out);
void encode(const Value& reply, std::string& out);
void encode(const Number& reply, std::string& out);

// The number of bytes that encode() would append; for rejecting a reply that is too large.
std::uint64_t encoded_size(const Reply& reply);

// False, with nothing appended, if the dialect (a, b or d) lacks that operation.
bool encode(const Request& request, Dialect dialect, std::string& out);

}  // namespace cpprun::c10d
