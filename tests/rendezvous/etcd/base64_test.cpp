// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/codec.h"

#include <doctest/doctest.h>

#include <utility>

namespace base64_test {

using namespace cpprun;

TEST_CASE("bytes are encoded as in RFC 4648 and decoded again") {
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

TEST_CASE("invalid base64 is rejected") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm9", "Z===", "====", "=", "Zm9v=", "Zm 9", "Zm9\n",
                           "Zm-_", "Zg==Zg==", "=m9v"}) {
    CAPTURE(text);
    CHECK_FALSE(bytes_of_base64(text));
  }
}

TEST_CASE("different texts never decode to the same bytes") {
  CHECK(bytes_of_base64("Zg=="));
  CHECK_FALSE(bytes_of_base64("Zh=="));  // the same byte, but with stray bits in the padding
  CHECK_FALSE(bytes_of_base64("Zm9="));
}

}  // namespace base64_test
