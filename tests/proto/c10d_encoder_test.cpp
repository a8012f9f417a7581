// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/codec.h"

#include <doctest/doctest.h>

#include "tests/proto/c10d_golden.h"

namespace c10d_encoder_test {

using namespace cpprun::c10d;
using golden::bytes_of;

namespace {

std::string encoded(const Reply& reply) {
  std::string bytes;
  encode(reply, bytes);
  CHECK(encoded_size(reply) == bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("a request is encoded as the client of that dialect encodes it") {
  for (const golden::Exchange& exchange : golden::exchanges()) {
    CAPTURE(exchange.name);
    for (const golden::Step& step : exchange.steps) {
      CAPTURE(step.sent);
      std::string bytes;
      CHECK(encode(step.meant, exchange.dialect, bytes));
      CHECK(bytes == bytes_of(step.sent));
    }
  }
}

TEST_CASE("a dialect rejects requests that it does not have") {
  std::string bytes;
  CHECK_FALSE(encode(Append{"k", "v"}, Dialect::a, bytes));
  CHECK_FALSE(encode(WatchKey{"k"}, Dialect::d, bytes));
  CHECK_FALSE(encode(Barrier{"k", 1}, Dialect::b, bytes));
  CHECK(bytes.empty());
}

TEST_CASE("each reply has the bytes that its clients expect") {
  constexpr Bytes two[] = {"1", "22"};
  CHECK(encoded(Pong{12345}) == bytes_of("39300000"));
  CHECK(encoded(Value{"v"}) == bytes_of("01..00 'v'"));
  CHECK(encoded(Value{}) == bytes_of("00..00"));
  CHECK(encoded(Number{-1}) == bytes_of("ffffffffffffffff"));
  CHECK(encoded(Checked{true}) == bytes_of("00"));
  CHECK(encoded(Checked{false}) == bytes_of("01"));
  CHECK(encoded(Waited{}) == bytes_of("00"));
  CHECK(encoded(Waited{.cancelled = true}) == bytes_of("01"));
  CHECK(encoded(Values{two}) == bytes_of("01..00 '1' 02..00 '22'"));
  CHECK(encoded(Values{}).empty());
  CHECK(encoded(Popped{}) == bytes_of("00..00"));
  CHECK(encoded(Popped{2, "x"}) == bytes_of("02..00 01..00 'x'"));
  CHECK(encoded(Keys{two}) == bytes_of("02..00 01..00 '1' 02..00 '22'"));
  CHECK(encoded(WatchRegistered{}) == bytes_of("03"));
}

TEST_CASE("watch notifications have the bytes that a 1.13 client captured") {
  CHECK(encoded(WatchNotice{Change::created, "/w", "", "v1"}) ==
        bytes_of("01 02..00 '/w' 00..00 02..00 'v1'"));
  CHECK(encoded(WatchNotice{Change::updated, "/w", "v1", "v2"}) ==
        bytes_of("00 02..00 '/w' 02..00 'v1' 02..00 'v2'"));
  CHECK(encoded(WatchNotice{Change::deleted, "/w", "v2", ""}) ==
        bytes_of("02 02..00 '/w' 02..00 'v2' 00..00"));
}

}  // namespace c10d_encoder_test
