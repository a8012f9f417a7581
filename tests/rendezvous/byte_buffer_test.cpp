// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/byte_buffer.h"

#include <doctest/doctest.h>

#include <string>

namespace byte_buffer_test {

using namespace cpprun;

TEST_CASE("bytes are read from the front in the order they were added") {
  ByteBuffer buffer;
  buffer.append("hello ");
  buffer.append("world");
  CHECK(buffer.view() == "hello world");
  buffer.drop_front(6);
  CHECK(buffer.view() == "world");
  buffer.append("!");
  CHECK(buffer.view() == "world!");
  buffer.drop_front(6);
  CHECK(buffer.empty());
  CHECK(buffer.tail_capacity() == 0);
}

TEST_CASE("a large buffer that is nearly empty releases its memory") {
  ByteBuffer buffer;
  buffer.append(std::string(1'000'000, 'x') + "end");
  buffer.drop_front(1'000'000);
  CHECK(buffer.view() == "end");
  CHECK(buffer.tail_capacity() < 1000);
}

TEST_CASE("bytes that are written from outside count once they are committed") {
  ByteBuffer buffer;
  char* tail = buffer.tail(3);
  tail[0] = 'a';
  tail[1] = 'b';
  CHECK(buffer.empty());
  buffer.grow_by(2);
  CHECK(buffer.view() == "ab");
}

}  // namespace byte_buffer_test
