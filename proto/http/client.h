// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The client side of HTTP, without the connection: a question as bytes, and its answer read out of
// bytes. `Session` is the other side. An answer is believed no further than the limits of
// proto/bounds.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "proto/http/session.h"
#include "proto/result.h"

namespace cpprun::http {

struct Question {
  Method method = Method::get;
  std::string target = "/";
  std::string host = "localhost";  // as it is called there
  std::string body = {};           // JSON; of a POST alone
  std::string last_event = {};     // the id of what a watcher has heard of last; empty: nothing
  std::string authorization = {};  // of whoever asks; empty: nobody in particular
  // Otherwise the connection is over after the answer.
  bool is_kept = false;
};

std::string to_bytes(const Question& question);

// An answer ends with its length, or with the connection where it has none, as a stream of events
// has.
class AnswerReader {
 public:
  // So many bytes have come; or what is wrong with them.
  Result<void> hear(std::string_view bytes);
  // The connection was closed; an error where something is missing.
  Result<void> end();

  bool has_head() const { return has_head_; }
  bool is_whole() const { return is_whole_; }
  // Of its head.
  unsigned status() const { return status_; }
  const std::string& type() const { return type_; }
  // What has come of the body since this was asked last.
  std::string take_body();

 private:
  Result<void> read_head(std::size_t size);
  Result<void> take(std::string_view bytes);

  std::string inbox_;  // of the head
  std::string body_;
  std::string type_;
  unsigned status_ = 0;
  std::optional<std::uint64_t> missing_;  // of the body; nothing: it has no length
  bool has_head_ = false;
  bool is_whole_ = false;
};

// One answer on a connection that goes on after it: with its length or in chunks, and whatever
// fields follow these. Whoever answers is believed no further than the limits say.
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
