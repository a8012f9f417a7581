// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One connection that speaks HTTP/1.1, without the connection: bytes go in, requests come out one
// by one, and each is answered before the next is looked at, however many were sent at once. It
// holds a request and no more.
//
// What two readers might understand in two ways is refused: chunked requests, several lengths,
// several hosts, line ends without a carriage return, a line that goes on in the next. Nothing is
// looked at before the head of a request is whole, so that however the bytes are cut, the same is
// said.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cpprun::http {

enum class Method { get, head, post, other };  // other: 405, whatever is asked for

struct Request {
  Method method = Method::get;
  std::string target;              // "/api/v1/jobs?after=x", as it was sent: printable ASCII
  std::string host;                // as it was sent; empty: an HTTP/1.0 client did not say
  std::string body = {};           // a few kilobytes at most
  std::string content_type = {};   // as it was sent
  bool has_origin = false;         // a page in a browser asks
  std::string last_event_id = {};  // what a watcher has heard of last; empty: it did not say
  std::string accept = {};         // of which types the answer may be, as it was sent
  std::string authorization = {};  // "Bearer …", as it was sent; empty: it did not say
  friend bool operator==(const Request&, const Request&) = default;
};

struct Response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  // Beyond what every answer has; names and values of ours.
  std::vector<std::pair<std::string_view, std::string>> fields = {};
  // The body is how it begins: more follows, until the connection is closed.
  bool goes_on = false;
  // Not 0: this is no answer yet; that comes later, under that number.
  std::uint64_t ticket = 0;
};

class Session {
 public:
  // How many more bytes it takes now. None while a request waits for its answer.
  std::size_t room() const;
  // So many bytes have come, at most.
  void hear(std::string_view bytes);

  struct NeedMore {};
  // It is to be answered before anything else.
  struct Asked {
    Request request;
  };
  // Those bytes are the last of this connection.
  struct Refused {
    std::string bytes;
    std::string reason;  // a clause for the log
  };
  using Step = std::variant<NeedMore, Asked, Refused>;
  // What is to be done next; not while a request waits for its answer.
  Step next();

  // The bytes that answer the request that came out last. Where the answer goes on nothing more is
  // heard.
  std::string answer(const Response& response);
  // After that answer the connection is to be closed.
  bool closes() const { return closes_; }
  // Bytes of a request have come that is not whole.
  bool is_torn() const { return !inbox_.empty(); }

 private:
  Refused refuse(unsigned status, std::string_view why);

  std::string inbox_;
  std::size_t needed_ = 0;   // bytes before it is worth looking again
  std::size_t scanned_ = 0;  // bytes in which the end of a head was looked for
  bool is_waiting_ = false;  // for an answer
  bool is_head_ = false;     // to which that answer has no body
  bool closes_ = false;
};

// An answer that asks for nothing: for somebody whose request is not even read.
std::string last_answer(const Response& response);

// Whether that is a name by which this machine may be asked for: an address, "localhost", or one of
// `names`, with or without a port. A page of a stranger's, whose name was made to point here, has a
// host of its own.
bool is_own_host(std::string_view host, const std::vector<std::string>& names);

}  // namespace cpprun::http
