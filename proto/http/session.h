// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The server side of one HTTP/1.1 connection, without the connection: bytes go in, requests come
// out one by one. Each has to be answered before the next is parsed, however many the client
// pipelines. It buffers one request at most.
//
// What two parsers could read differently is rejected: chunked requests, several lengths, several
// hosts, line ends without a carriage return, continued header lines. Parsing starts when the head
// is complete, so the result does not depend on how the bytes are fragmented.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cpprun::http {

enum class Method { get, head, post, other };  // other: replied with 405

struct Request {
  Method method = Method::get;
  std::string target;             // "/api/v1/jobs?after=x", unchanged: printable ASCII
  std::string host;               // unchanged; empty: not sent by an HTTP/1.0 client
  std::string body = {};          // a few kilobytes at most
  std::string content_type = {};  // unchanged
  // The Origin header, unchanged: sent by a page in a browser, such as "http://host:port".
  std::optional<std::string> origin = {};
  std::string last_event_id = {};  // Last-Event-ID of a watcher; empty: not sent
  std::string accept = {};         // the Accept header, unchanged
  std::string authorization = {};  // "Bearer …", unchanged; empty: not sent
  friend bool operator==(const Request&, const Request&) = default;
};

struct Response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  // In addition to those that every reply has. Not escaped.
  std::vector<std::pair<std::string_view, std::string>> fields = {};
  // A stream: the body is only its first part, and it ends with the connection.
  bool goes_on = false;
  // Not 0: the reply comes later, under that ticket.
  std::uint64_t ticket = 0;
};

class Session {
 public:
  // How many more bytes it accepts now; none while a request waits for its reply.
  std::size_t room() const;
  // Takes received bytes, up to room().
  void hear(std::string_view bytes);

  struct NeedMore {};
  // Has to be answered before anything else.
  struct Asked {
    Request request;
  };
  // Send these bytes, then close the connection.
  struct Refused {
    std::string bytes;
    std::string reason;  // a clause for the log
  };
  using Step = std::variant<NeedMore, Asked, Refused>;
  // The next step. Not while a request waits for its reply.
  Step next();

  // Encodes the reply to the last request. After a stream no further request is accepted.
  std::string answer(const Response& response);
  // The connection has to be closed after that reply.
  bool closes() const { return closes_; }
  // Part of a request has been received.
  bool is_torn() const { return !inbox_.empty(); }

 private:
  Refused refuse(unsigned status, std::string_view why);

  std::string inbox_;
  std::size_t needed_ = 0;   // bytes required before parsing again
  std::size_t scanned_ = 0;  // bytes already searched for the end of the head
  bool is_waiting_ = false;  // for a reply
  bool is_head_ = false;     // of the pending request: its reply has no body
  bool closes_ = false;
};

// A complete reply that closes the connection; for clients whose request is not even read.
std::string last_answer(const Response& response);

// Whether a Host header names this machine: an address, "localhost", or one of `names`, with or
// without a port. Protects against DNS rebinding: a page of another site whose name resolves to
// this machine sends its own host.
bool is_own_host(std::string_view host, const std::vector<std::string>& names);

}  // namespace cpprun::http
