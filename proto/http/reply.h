// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One answer on a connection that goes on after it: with its length or in chunks, and whatever
// fields follow these. Whoever answers is believed no further than the limits say.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun::http {

class ReplyReader {
 public:
  explicit ReplyReader(std::size_t body_bytes_max);
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  // So many bytes have come; or what is wrong with them, as a clause about who answers. What comes
  // behind a whole answer is wrong: nobody has asked for it.
  Result<void> hear(std::string_view bytes);
  // The connection was closed; an error where something is missing.
  Result<void> end();

  // Anything has come at all.
  bool has_begun() const;
  bool is_whole() const;
  // Of one that is whole: its status, and whether the connection may be used once more.
  unsigned status() const;
  bool is_kept() const;
  std::string take_body();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace cpprun::http
