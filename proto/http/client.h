// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The client side of HTTP, without the connection: encodes a request and parses its reply.
// `Session` is the server side. Replies are accepted only within the limits of proto/bounds.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/http/session.h"
#include "proto/result.h"

namespace cpprun::http {

struct Question {
  Method method = Method::get;
  std::string target = "/";
  std::string host = "localhost";  // the Host header
  std::string body = {};           // JSON; only for a POST
  std::string last_event = {};     // Last-Event-ID: the last event a watcher received; empty: none
  std::string authorization = {};  // the Authorization header; empty: none
  // Keep the connection open after the reply.
  bool is_kept = false;
};

std::string to_bytes(const Question& question);

// Parses a reply, which ends with its length or, without one, with the connection, as an event
// stream does.
class AnswerReader {
 public:
  // Takes received bytes; fails if they are invalid.
  Result<void> hear(std::string_view bytes);
  // The connection was closed; fails if the reply is incomplete.
  Result<void> end();

  bool has_head() const { return has_head_; }
  bool is_whole() const { return is_whole_; }
  // From the head of the reply.
  unsigned status() const { return status_; }
  const std::string& type() const { return type_; }
  // The part of the body received since the last call.
  std::string take_body();

 private:
  Result<void> read_head(std::size_t size);
  Result<void> take(std::string_view bytes);

  std::string inbox_;  // the head as received so far
  std::string body_;
  std::string type_;
  unsigned status_ = 0;
  std::optional<std::uint64_t> missing_;  // of the body; empty: it has no length
  bool has_head_ = false;
  bool is_whole_ = false;
};

// Parses one reply on a persistent connection: with a length or in chunks, and any trailers.
// Accepted only within the limits.
class ReplyReader {
 public:
  explicit ReplyReader(std::size_t body_bytes_max);
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  // Takes received bytes; fails with a clause about the peer if they are invalid. Bytes after a
  // complete reply are an error, since nothing else was requested.
  Result<void> hear(std::string_view bytes);
  // The connection was closed; fails if the reply is incomplete.
  Result<void> end();

  // Whether anything has been received.
  bool has_begun() const;
  bool is_whole() const;
  // For a complete reply: its status, and whether the connection can be reused.
  unsigned status() const;
  bool is_kept() const;
  std::string take_body();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Parses server-sent events from a byte stream. Returns complete events in order.
class EventStream {
 public:
  // Adds bytes and returns the events completed by them. Skips comments.
  Result<std::vector<std::string>> hear(std::string_view bytes);
  // The id of the last event, verbatim. Empty: no event had one.
  const std::string& last() const { return last_; }

 private:
  void take_line(std::string_view line, std::vector<std::string>& whole);

  std::string unread_;  // an incomplete line
  std::string data_;    // an incomplete event
  bool has_data_ = false;
  std::string last_;
};

}  // namespace cpprun::http
