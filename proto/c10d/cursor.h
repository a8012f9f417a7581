// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads the primitive fields of the protocol one after another, and remembers what stopped it: too
// few bytes, or a length beyond its limit. Shared by the decoders of requests and of replies.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "proto/bounds.h"

namespace cpprun::c10d {

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

}  // namespace cpprun::c10d
