// SPDX-License-Identifier: BSD-3-Clause
#include "proto/sniff.h"

#include <doctest/doctest.h>

#include <string>

namespace sniff_test {

using namespace cpprun;
using namespace std::string_view_literals;

TEST_CASE("store clients of every dialect are recognised by their first byte") {
  CHECK(sniff("\x00"sv) == Protocol::store);
  CHECK(sniff("\x03\x05"sv) == Protocol::store);
  CHECK(sniff("\x0b"sv) == Protocol::store);
  CHECK(sniff("\x0c"sv) == Protocol::unknown);
}

TEST_CASE("an agent is recognised once its complete preamble has arrived") {
  CHECK(sniff("cpprun1") == Protocol::undecided);
  CHECK(sniff("cpprun1\n{") == Protocol::link);
  CHECK(sniff("cpprun2\n") == Protocol::unknown);
}

TEST_CASE("without bytes the protocol is undecided") {
  CHECK(sniff("") == Protocol::undecided);
}

TEST_CASE("an unexpected protocol has a name in the log") {
  CHECK(sniff("GET / HTTP/1.1\r\n") == Protocol::http);
  CHECK(sniff("GE") == Protocol::undecided);
  CHECK(describe("GET / HTTP/1.1\r\n") == "an HTTP request");
  CHECK(sniff("\x16\x03\x01") == Protocol::secure);
  CHECK(sniff("\x16") == Protocol::undecided);
  CHECK(sniff("\x16\x02") == Protocol::unknown);
  CHECK(describe("\x16\x03\x01") == "a TLS handshake");
  CHECK(describe("SSH-2.0-x") == "an SSH client");
  CHECK(sniff("\xff\xff") == Protocol::unknown);
  CHECK(describe("\xff\xff") == "an unknown protocol");
}

}  // namespace sniff_test
