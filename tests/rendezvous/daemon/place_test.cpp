// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/endpoint.h"

#include <doctest/doctest.h>

#include <string>

namespace place_test {

using namespace cpprun;

TEST_CASE("an address is a host and an optional port in the usual notations") {
  CHECK(*parse_member_address("a") == Endpoint{"a", 29400});
  CHECK(*parse_member_address("10.0.0.1:7") == Endpoint{"10.0.0.1", 7});
  CHECK(*parse_member_address("[fd00::1]:65535") == Endpoint{"fd00::1", 65535});
  CHECK(*parse_member_address("[fd00::1]") == Endpoint{"fd00::1", 29400});
  for (const char* text : {"a:1", "10.0.0.1:29400", "[fd00::1]:2"}) {
    CHECK(to_string(*parse_member_address(text)) == text);
  }
  CHECK(host_of_member("[::1]:5") == "::1");
  CHECK(port_of_member("b:5") == 5);
}

TEST_CASE("an invalid address is rejected with the valid forms") {
  for (const char* text :
       {"", ":1", "a:", "a:0", "a:65536", "a:b", "fd00::1", "[fd00::1", "[]:1", "[a]x", "a:1 "}) {
    const auto parsed = parse_member_address(text);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().reason.find("write HOST, HOST:PORT or [IPv6]:PORT") != std::string::npos);
  }
  CHECK(host_of_member("").empty());
  CHECK(port_of_member("x:y") == 0);
}

TEST_CASE("a numeric address is specific unless it is a wildcard") {
  CHECK(is_one_address("10.0.0.1"));
  CHECK(is_one_address("fd00::1"));
  for (const char* const each : {"", "0.0.0.0", "::", "node1", "node.example", "cafe"}) {
    CHECK_FALSE(is_one_address(each));
  }
}

}  // namespace place_test
