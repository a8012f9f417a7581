// SPDX-License-Identifier: BSD-3-Clause
#include "proto/http/client.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace http_reply_test {

using namespace cpprun;
using http::ReplyReader;

namespace {

constexpr std::size_t body_max = 1000;

// As etcd 3.4 answers with a failure: in chunks, followed by a trailer field.
const std::string in_chunks =
    "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
    "Trailer: Grpc-Trailer-Content-Type\r\nTransfer-Encoding: chunked\r\n\r\n"
    "6\r\n{\"code\r\n5\r\n\": 5}\r\n0\r\nGrpc-Trailer-Content-Type: application/grpc\r\n\r\n";
const std::string with_length =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

ReplyReader read_in_pieces(std::string_view bytes, std::size_t piece) {
  ReplyReader reader(body_max);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    CHECK_FALSE(reader.is_whole());
    const auto heard = reader.hear(bytes.substr(0, piece));
    REQUIRE_MESSAGE(heard.has_value(), heard.error().reason);
  }
  return reader;
}

std::string why_refused(std::string_view bytes) {
  const auto heard = ReplyReader(body_max).hear(bytes);
  return heard ? std::string() : heard.error().reason;
}

}  // namespace

TEST_CASE("a chunked answer with trailer fields is complete, however its bytes are cut") {
  for (const std::size_t piece : {1U, 2U, 7U, 1000U}) {
    CAPTURE(piece);
    ReplyReader reader = read_in_pieces(in_chunks, piece);
    REQUIRE(reader.is_whole());
    CHECK(reader.status() == 404);
    CHECK(reader.take_body() == "{\"code\": 5}");
    CHECK(reader.is_kept());
  }
}

TEST_CASE("an answer with a length is complete, however its bytes are cut") {
  for (const std::size_t piece : {1U, 3U, 1000U}) {
    ReplyReader reader = read_in_pieces(with_length, piece);
    REQUIRE(reader.is_whole());
    CHECK(reader.status() == 200);
    CHECK(reader.take_body() == "{}");
    CHECK(reader.is_kept());
  }
}

TEST_CASE("a connection that is to be closed is not reused") {
  ReplyReader reader =
      read_in_pieces("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 1000);
  REQUIRE(reader.is_whole());
  CHECK_FALSE(reader.is_kept());
}

TEST_CASE("an answer without a length or chunks ends with the connection, which is not reused") {
  ReplyReader reader = read_in_pieces("HTTP/1.1 200 OK\r\n\r\nhel", 1000);
  REQUIRE(reader.hear("lo"));
  CHECK_FALSE(reader.is_whole());
  REQUIRE(reader.end());
  CHECK(reader.is_whole());
  CHECK(reader.take_body() == "hello");
  CHECK_FALSE(reader.is_kept());
}

TEST_CASE("a truncated answer is reported as truncated") {
  CHECK(ReplyReader(body_max).end().error().reason == "connection closed without a response");
  for (const std::size_t size : {1U, 30U, 150U, 175U, 190U}) {
    CAPTURE(size);
    ReplyReader reader = read_in_pieces(in_chunks.substr(0, size), 1000);
    CHECK(reader.has_begun());
    const auto ended = reader.end();
    REQUIRE_FALSE(ended);
    CHECK(ended.error().reason == "connection closed in the middle of the response");
  }
}

TEST_CASE("an answer that is invalid, too long, or more than one is rejected with a reason") {
  CHECK(why_refused("SSH-2.0-x\r\n\r\n") == "the response is not HTTP");
  CHECK(why_refused("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n") == "the response is not HTTP");
  CHECK(why_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n") ==
        "the response is not HTTP");
  CHECK(why_refused("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n") ==
        "the response has more than 1000 bytes");
  CHECK(why_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFF\r\n") ==
        "the response has more than 1000 bytes");
  CHECK(why_refused(with_length + "HTTP/1.1") == "received data after the end of the response");
  CHECK(why_refused("HTTP/1.1 200 OK\r\nA: " + std::string(100'000, 'x'))
            .find("headers of the response") != std::string::npos);
  CHECK(why_refused(in_chunks.substr(0, in_chunks.size() - 4) + std::string(100'000, 'x')) != "");
  CHECK(why_refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                    std::string(100'000, 'x')) != "");
}

}  // namespace http_reply_test
