// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/codec.h"

#include <doctest/doctest.h>

#include <utility>

namespace base64_test {

using namespace cpprun;

TEST_CASE("bytes are written as RFC 4648 has them, and read again") {
  for (const auto& [bytes, text] : {std::pair<std::string, std::string>{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"},
                                    {std::string("\0\xff\xfe", 3), "AP/+"}}) {
    CHECK(base64_of(bytes) == text);
    CHECK(bytes_of_base64(text) == bytes);
  }
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  CHECK(bytes_of_base64(base64_of(all)) == all);
}

TEST_CASE("what is no base64 is nothing") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm9", "Z===", "====", "=", "Zm9v=", "Zm 9", "Zm9\n",
                           "Zm-_", "Zg==Zg==", "=m9v"}) {
    CAPTURE(text);
    CHECK_FALSE(bytes_of_base64(text));
  }
}

TEST_CASE("two texts are never the same bytes") {
  CHECK(bytes_of_base64("Zg=="));
  CHECK_FALSE(bytes_of_base64("Zh=="));  // the same byte, with bits that nobody would see
  CHECK_FALSE(bytes_of_base64("Zm9="));
}

}  // namespace base64_test
