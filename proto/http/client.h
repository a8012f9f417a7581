// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The client side of HTTP, without the connection: encodes a request and parses its reply.
// `Session` is the server side. Replies are accepted only within the limits of bounds.h.

#include <cstddef>
#include <memory>
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
  std::string authorization = {};  // the Authorization header; empty: none
  // Keep the connection open after the reply.
  bool is_kept = false;
};

std::string to_bytes(const Question& question);

// Parses one reply, within the limits: it ends with its length, with its last chunk and any
// trailers, or, without either, with the connection, as an event stream does.
class ReplyReader {
 public:
  // The limit is that of the body, or of the part of it that was not taken. `hint` completes the
  // error about a peer that does not speak HTTP.
  explicit ReplyReader(std::size_t body_bytes_max, std::string_view hint = {});
  ~ReplyReader();
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;

  // Takes received bytes; fails with a clause about the peer if they are invalid. Bytes after a
  // complete reply are an error, since nothing else was requested.
  Result<void> hear(std::string_view bytes);
  // The connection was closed; fails if the reply is incomplete.
  Result<void> end();

  // Whether anything has been received, the head, and all of it.
  bool has_begun() const;
  bool has_head() const;
  bool is_whole() const;
  // From the head.
  unsigned status() const;
  // For a complete reply: whether the connection can be reused.
  bool is_kept() const;
  // The part of the body received since the last call.
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

 private:
  void take_line(std::string_view line, std::vector<std::string>& whole);

  std::string unread_;  // an incomplete line
  std::string data_;    // an incomplete event
  bool has_data_ = false;
};

}  // namespace cpprun::http
