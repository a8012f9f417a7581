// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/endpoint.h"

#include <doctest/doctest.h>

namespace endpoint_test {

using namespace cpprun;

TEST_CASE("names and IPv4 addresses are parsed with and without a port") {
  CHECK(parse_endpoint("node0", 29500) == Endpoint{"node0", 29500});
  CHECK(parse_endpoint(" node0.cluster:1234 ", 29500) == Endpoint{"node0.cluster", 1234});
  CHECK(parse_endpoint("10.0.0.1:0", 29500) == Endpoint{"10.0.0.1", 0});
}

TEST_CASE("IPv6 is parsed with and without brackets, and its last group is never a port") {
  CHECK(parse_endpoint("[2001:db8::1]:1234", 29500) == Endpoint{"2001:db8::1", 1234});
  CHECK(parse_endpoint("[::1]", 29500) == Endpoint{"::1", 29500});
  CHECK(parse_endpoint("2001:db8::1", 29500) == Endpoint{"2001:db8::1", 29500});
  CHECK(parse_endpoint("fe80::1%eth0", 29500) == Endpoint{"fe80::1%eth0", 29500});
}

TEST_CASE("an invalid endpoint is rejected with its error") {
  CHECK(parse_endpoint("node0:", 1).error().reason == "\"node0:\": no port after the colon");
  CHECK(parse_endpoint("node0:99999", 1).error().reason ==
        "\"node0:99999\": port \"99999\" is not a number from 0 to 65535");
  CHECK(parse_endpoint("[::1", 1).error().reason == "\"[::1\": the closing bracket is missing");
  CHECK_FALSE(parse_endpoint("", 1).has_value());
  CHECK_FALSE(parse_endpoint("a b:1", 1).has_value());
  CHECK_FALSE(parse_endpoint("tcp://node0:1", 1).has_value());
  CHECK_FALSE(parse_endpoint("[::1]1", 1).has_value());
  CHECK_FALSE(parse_endpoint("node0:-1", 1).has_value());
  // A scope is a name as well: text after a typo was taken for a part of it.
  CHECK_FALSE(parse_endpoint("fe80::1%eth0]:1", 1).has_value());
  CHECK_FALSE(parse_endpoint("[fe80::1%]:1", 1).has_value());
}

TEST_CASE("a host is an endpoint without a port") {
  CHECK(parse_host("[::1]") == "::1");
  CHECK(parse_host("10.0.0.1") == "10.0.0.1");
  CHECK(parse_host("node0:1").error().reason ==
        "\"node0:1\" has a port, but only a host is allowed here");
}

TEST_CASE("an endpoint is printed as it is typed, and loopback is recognised") {
  CHECK(to_string(Endpoint{"::1", 5}) == "[::1]:5");
  CHECK(to_string(Endpoint{"node0", 5}) == "node0:5");
  CHECK(is_loopback("127.0.1.1"));
  CHECK(is_loopback("localhost"));
  CHECK(is_loopback("::1"));
  CHECK_FALSE(is_loopback("127.example.org"));
  CHECK_FALSE(is_loopback("10.0.0.1"));
}

TEST_CASE("a list of endpoints is parsed and printed like each of them") {
  const auto places = parse_endpoints("a:1, b ,[fd00::1]:3,10.0.0.4", 29400);
  REQUIRE(places);
  CHECK(*places ==
        std::vector<Endpoint>{{"a", 1}, {"b", 29400}, {"fd00::1", 3}, {"10.0.0.4", 29400}});
  CHECK(to_string(*places) == "a:1, b:29400, [fd00::1]:3, 10.0.0.4:29400");
  CHECK(*parse_endpoints("a", 1) == std::vector<Endpoint>{{"a", 1}});
}

TEST_CASE("a list of endpoints has no empty entry, no duplicates and a maximum length") {
  for (const char* const text : {"a:1,,b:1", ",a:1", "a:1,", ","}) {
    CAPTURE(text);
    CHECK(parse_endpoints(text, 1).error().reason.find("has an empty entry between commas") !=
          std::string::npos);
  }
  CHECK(parse_endpoints("a:1,b:1,a", 1).error().reason ==
        "\"a:1\" is listed twice; list each cpprund of a cluster once");
  CHECK(parse_endpoints("a,b,c,d,e,f,g,h", 1).error().reason ==
        "8 endpoints, but a cluster has at most 7 cpprunds");
  CHECK(parse_endpoints("a:1,b:x", 1).error().reason.starts_with("\"b:x\": port \"x\" is not"));
}

}  // namespace endpoint_test
