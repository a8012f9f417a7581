// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proto/http/bounds.h"

namespace http_session_test {

using namespace cpprun;
using namespace cpprun::http;

namespace {

struct Heard {
  std::vector<Request> requests;
  std::string said;  // all bytes, in order
  std::string reason;
  bool closed = false;
};

// Bytes in pieces of that size, to a server that answers each request with "<target>\n".
Heard talk(std::string_view bytes, std::size_t piece_size = std::string_view::npos) {
  Session session;
  Heard heard;
  while (!heard.closed) {
    const auto step = session.next();
    if (const auto* asked = std::get_if<Session::Asked>(&step)) {
      heard.requests.push_back(asked->request);
      heard.said += session.answer({.body = asked->request.target + "\n"});
      heard.closed = session.closes();
    } else if (const auto* refused = std::get_if<Session::Refused>(&step)) {
      heard.said += refused->bytes;
      heard.reason = refused->reason;
      heard.closed = true;
      CHECK(session.closes());
    } else {
      const auto size = std::min({bytes.size(), piece_size, session.room()});
      if (size == 0) break;
      session.hear(bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }
  return heard;
}

// The status of a rejected conversation; 0: it was not rejected.
int refusal_of(std::string_view bytes) {
  const Heard heard = talk(bytes);
  if (heard.reason.empty()) return 0;
  CHECK(heard.closed);
  CHECK(heard.said.find("Connection: close\r\n") != std::string::npos);
  const auto last = heard.said.rfind("HTTP/1.1 ");
  REQUIRE(last != std::string::npos);
  return std::stoi(heard.said.substr(last + 9, 3));
}

std::string get(const std::string& fields, const std::string& line = "GET / HTTP/1.1") {
  return line + "\r\nHost: localhost\r\n" + fields + "\r\n";
}

}  // namespace

TEST_CASE("a request is parsed into its method, its target and its host") {
  const Heard heard = talk("GET /metrics?x=1 HTTP/1.1\r\nHost: 127.0.0.1:29400\r\n\r\n");
  REQUIRE(heard.requests.size() == 1);
  CHECK(heard.requests[0] == Request{Method::get, "/metrics?x=1", "127.0.0.1:29400"});
  CHECK_FALSE(heard.closed);
  CHECK(heard.said ==
        "HTTP/1.1 200 OK\r\n"
        "Content-Type: text/plain; charset=utf-8\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Content-Length: 13\r\n"
        "\r\n"
        "/metrics?x=1\n");
}

TEST_CASE("the replies are the same however the bytes are cut") {
  const std::string conversations[] = {
      get("") + get("X: y\r\n", "HEAD /a HTTP/1.1") + get("", "GET /b HTTP/1.1"),
      get("Content-Length: 5\r\n", "POST / HTTP/1.1") + "hello" + get("", "GET /c HTTP/1.1"),
      get("") + "no request\r\n\r\n",
      get("Connection: close\r\n") + get(""),
      "GET / HTTP/1.0\r\n\r\n",
      get("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.1") + "0\r\n\r\n",
  };
  for (const std::string& bytes : conversations) {
    CAPTURE(bytes);
    const Heard whole = talk(bytes);
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
      const Heard torn = talk(bytes, piece);
      REQUIRE(torn.said == whole.said);
      REQUIRE(torn.requests == whole.requests);
      REQUIRE(torn.closed == whole.closed);
    }
  }
}

TEST_CASE("pipelined requests are answered one after the other, and never two at once") {
  std::string bytes;
  for (int at = 0; at < 20; ++at) bytes += get("", "GET /" + std::to_string(at) + " HTTP/1.1");
  const Heard heard = talk(bytes);
  REQUIRE(heard.requests.size() == 20);
  CHECK(heard.requests[19].target == "/19");
  Session session;
  session.hear(bytes);
  REQUIRE(std::holds_alternative<Session::Asked>(session.next()));
  CHECK(session.room() == 0);
  session.answer({});
  CHECK(session.room() > 0);
  CHECK(std::holds_alternative<Session::Asked>(session.next()));
}

TEST_CASE("HEAD returns the length of the answer without the answer") {
  const Heard heard = talk(get("", "HEAD /long HTTP/1.1") + get("", "GET /b HTTP/1.1"));
  REQUIRE(heard.requests.size() == 2);
  CHECK(heard.requests[0].method == Method::head);
  CHECK(heard.said.find("Content-Length: 6\r\n") != std::string::npos);
  CHECK(heard.said.find("/long\n") == std::string::npos);
  CHECK(heard.said.ends_with("\r\n\r\n/b\n"));
}

TEST_CASE("a client that asks to close, or uses HTTP/1.0, is answered and closed") {
  const Heard heard = talk(get("Connection: close\r\n") + get("", "GET /b HTTP/1.1"));
  CHECK(heard.requests.size() == 1);
  CHECK(heard.closed);
  CHECK(heard.said.find("Connection: close\r\n") != std::string::npos);
  const Heard old = talk("GET / HTTP/1.0\r\n\r\n");
  REQUIRE(old.requests.size() == 1);
  CHECK(old.requests[0].host.empty());
  CHECK(old.closed);
}

TEST_CASE("a body is counted and not read, and the next request follows it") {
  const Heard heard = talk(get("Content-Length: 30\r\n", "POST / HTTP/1.1") +
                           "GET /smuggled HTTP/1.1\r\n\r\nxxxx" + get("", "GET /b HTTP/1.1"));
  REQUIRE(heard.requests.size() == 2);
  CHECK(heard.requests[0].method == Method::post);
  CHECK(heard.requests[1].target == "/b");
}

TEST_CASE("a request that two parsers could read differently is rejected") {
  CHECK(refusal_of(get("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.1")) == 501);
  CHECK(refusal_of(get("Transfer-Encoding: identity\r\n")) == 501);
  CHECK(refusal_of(get("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n")) != 0);
  CHECK(refusal_of(get("Content-Length: 3\r\nContent-Length: 4\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length: 3\r\nContent-Length: 3\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length: 3, 3\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length: +3\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length: -1\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length: 0x3\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length: 18446744073709551616\r\n")) == 400);
  CHECK(refusal_of(get("Content-Length : 3\r\n")) == 400);
  CHECK(refusal_of(get(" Content-Length: 3\r\n")) == 400);
  CHECK(refusal_of(get("X: y\r\n\tz\r\n")) == 400);
  CHECK(refusal_of(get("Host: evil.example\r\n")) == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\nHost: localhost\n\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: localhost\n\r\n") == 400);
  CHECK(refusal_of(get("Expect: 100-continue\r\n", "POST / HTTP/1.1")) == 417);
}

TEST_CASE("a request that is too long is rejected with its status and not kept") {
  CHECK(refusal_of(get("X: " + std::string(bounds::http_head_bytes_max, 'x') + "\r\n")) == 431);
  CHECK(refusal_of("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x')) == 431);
  std::string many;
  for (int at = 0; at < 10'000; ++at) many += "X: y\r\n";
  CHECK(refusal_of(get(many)) == 431);
  CHECK(refusal_of(get("Content-Length: 4097\r\n", "POST / HTTP/1.1")) == 413);
  CHECK(refusal_of(get("Content-Length: 9223372036854775807\r\n", "POST / HTTP/1.1")) == 413);
  const std::string target(bounds::http_target_bytes_max, 'x');
  CHECK(refusal_of(get("", "GET /" + target + " HTTP/1.1")) == 414);
  Session session;
  CHECK(session.room() == bounds::http_head_bytes_max + bounds::http_body_bytes_max);
}

TEST_CASE("a method, version or target that is not supported has its own status") {
  // The handler knows the targets and lists their methods.
  const auto removal = talk(get("", "DELETE / HTTP/1.1"));
  REQUIRE(removal.requests.size() == 1);
  CHECK(removal.requests[0].method == Method::other);
  const auto query = talk(get("", "QUERY / HTTP/1.1"));
  REQUIRE(query.requests.size() == 1);
  CHECK(query.requests[0].method == Method::other);
  CHECK(refusal_of(get("", "CONNECT a:1 HTTP/1.1")) != 0);
  CHECK(refusal_of(get("", "BREW / HTTP/1.1")) == 501);
  CHECK(refusal_of(get("", "GET / HTTP/2.0")) == 505);
  CHECK(refusal_of(get("", "GET / HTTP/0.9")) == 505);
  CHECK(refusal_of(get("", "GET / http/1.1")) == 505);
  CHECK(refusal_of(get("", "GET http://localhost/ HTTP/1.1")) == 400);
  CHECK(refusal_of(get("", "GET * HTTP/1.1")) == 400);
  CHECK(refusal_of(get("", "GET /\xc3\xa9 HTTP/1.1")) == 400);
  CHECK(refusal_of(get("", "GET  / HTTP/1.1")) == 400);
  CHECK(refusal_of(get("", "GET /a b HTTP/1.1")) == 505);
  CHECK(refusal_of(std::string("GET /\0 HTTP/1.1\r\n\r\n", 20)) == 400);
  CHECK(refusal_of("\r\n\r\n") == 400);
  CHECK(refusal_of("GET /\n\n") == 400);
}

TEST_CASE("requests before a rejected request are still answered") {
  const Heard heard = talk(get("", "GET /first HTTP/1.1") + "rubbish\r\n\r\n");
  CHECK(heard.requests.size() == 1);
  CHECK(heard.said.find("/first\n") < heard.said.find("HTTP/1.1 400 Bad Request"));
}

TEST_CASE("nothing is read after the last answer") {
  Session session;
  session.hear("rubbish\r\n\r\n" + get(""));
  REQUIRE(std::holds_alternative<Session::Refused>(session.next()));
  session.hear(get(""));
  CHECK(session.room() == 0);
  CHECK(std::holds_alternative<Session::NeedMore>(session.next()));
}

TEST_CASE("the host of a request must be an address, localhost, or a name of this machine") {
  const std::vector<std::string> names = {"node-7", "node-7.example.org"};
  for (const char* host : {"127.0.0.1", "127.0.0.1:29400", "10.0.0.3:1", "[::1]", "[fe80::1]:80",
                           "localhost", "LOCALHOST:29400", "node-7", "Node-7.example.ORG:1"}) {
    CAPTURE(host);
    CHECK(is_own_host(host, names));
  }
  for (const char* host :
       {"", ":80", "evil.example", "evil.example:29400", "127.0.0.1.evil.example", "1.2.3",
        "1.2.3.4.5", "localhost.evil.example", "localhost:", "localhost:x", "[::1", "[]", "[g::1]",
        "[::1]evil.example", "node-7.evil.example", "node", "a@localhost", "127.0.0.1, evil"}) {
    CAPTURE(host);
    CHECK_FALSE(is_own_host(host, names));
  }
}

TEST_CASE("the body of a request, and whether it comes from a web page, are passed on") {
  const std::string body = R"({"reason": "enough"})";
  const Heard heard = talk(
      "POST /stop HTTP/1.1\r\nHost: a\r\nAccept: text/plain;q=0.5\r\nContent-Type: "
      "application/json\r\nOrigin: http://evil\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body + "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  REQUIRE(heard.requests.size() == 2);
  CHECK(heard.requests[0].body == body);
  CHECK(heard.requests[0].content_type == "application/json");
  CHECK(heard.requests[0].origin.has_value());
  CHECK(heard.requests[0].accept == "text/plain;q=0.5");
  CHECK(heard.requests[1] == Request{Method::get, "/", "a"});
}

}  // namespace http_session_test
