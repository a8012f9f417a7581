// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/client.h"

#include <doctest/doctest.h>

#include "launcher/control/io/jobs.h"

namespace http_exchange_test {

using namespace cpprun;
using namespace cpprun::http;

namespace {

const std::string fine = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";

ReplyReader fresh() {
  return ReplyReader(bounds::answer_bytes_max);
}

// The answer of a Session, read in pieces of that size.
ReplyReader read_in_pieces(std::string_view bytes, std::size_t piece) {
  ReplyReader reader = fresh();
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    REQUIRE(reader.hear(bytes.substr(0, piece)));
  }
  return reader;
}

}  // namespace

TEST_CASE("an encoded request is parsed by a session") {
  const Question question{.method = Method::post, .target = "/a", .host = "h:1", .body = "{}"};
  CHECK(to_bytes(question) ==
        "POST /a HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\n\r\n{}");
  Session session;
  std::string bytes = to_bytes({.target = "/b"});
  bytes.insert(bytes.size() - 2, "Last-Event-ID: a1-7\r\n");
  session.hear(bytes);
  const auto step = session.next();
  REQUIRE(std::holds_alternative<Session::Asked>(step));
  const Request& request = std::get<Session::Asked>(step).request;
  CHECK(request.target == "/b");
  CHECK(request.host == "localhost");
  CHECK(request.last_event_id == "a1-7");
}

TEST_CASE("an answer is the same however its bytes are cut") {
  const std::string bytes = fine + "Content-Length: 5\r\n\r\nhello";
  for (const std::size_t piece : {1U, 3U, 1000U}) {
    ReplyReader reader = read_in_pieces(bytes, piece);
    CHECK(reader.is_whole());
    CHECK(reader.status() == 200);
    CHECK(reader.take_body() == "hello");
    CHECK(reader.end());
  }
}

TEST_CASE("an answer without a length lasts until the connection ends") {
  ReplyReader reader = read_in_pieces(fine + "\r\none", 1000);
  CHECK(reader.take_body() == "one");
  CHECK_FALSE(reader.is_whole());
  REQUIRE(reader.hear("two"));
  CHECK(reader.take_body() == "two");
  CHECK(reader.end());
  CHECK(reader.is_whole());
}

TEST_CASE("a streamed answer of a session is parsed as one") {
  Session session;
  session.hear(to_bytes({.target = "/"}));
  REQUIRE(std::holds_alternative<Session::Asked>(session.next()));
  ReplyReader reader = read_in_pieces(session.answer({.body = ":\n\n", .goes_on = true}), 1000);
  CHECK(session.closes());
  CHECK(session.room() == 0);
  CHECK(reader.take_body() == ":\n\n");
  CHECK_FALSE(reader.is_whole());
}

TEST_CASE("an answer that is invalid or has no end is rejected") {
  CHECK_FALSE(fresh().hear("SSH-2.0-x\r\n\r\n"));
  CHECK_FALSE(fresh().hear(std::string(100'000, 'x')));
  CHECK_FALSE(fresh().hear(fine + "Transfer-Encoding: chunked\r\n\r\nx\r\n"));
  CHECK_FALSE(fresh().hear(fine + "Content-Length: x\r\n\r\n"));
  CHECK_FALSE(fresh().hear(fine + "Content-Length: 1\r\n\r\nxx"));
  CHECK_FALSE(fresh().end());
  ReplyReader torn = read_in_pieces(fine + "Content-Length: 5\r\n\r\nhel", 1000);
  CHECK_FALSE(torn.end());
}

TEST_CASE("an endless answer that is not read is given up") {
  ReplyReader reader = read_in_pieces(fine + "\r\n", 1000);
  const std::string much(bounds::answer_bytes_max, 'x');
  REQUIRE(reader.hear(much));
  CHECK(reader.take_body() == much);
  REQUIRE(reader.hear(much));
  CHECK_FALSE(reader.hear("x"));
}

}  // namespace http_exchange_test
