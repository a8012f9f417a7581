// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_request.h"

#include <doctest/doctest.h>

#include <utility>

namespace etcd_endpoint_test {

using namespace cpprun;

namespace {

std::string why(std::string_view text) {
  const auto parsed = parse_etcd_endpoints(text);
  return parsed ? "nothing is wrong" : parsed.error().reason;
}

}  // namespace

TEST_CASE("endpoints are read in all common notations") {
  using Endpoints = std::vector<EtcdEndpoint>;
  CHECK(parse_etcd_endpoints("http://a:2379,https://b:2380,c:1,[::1]:2379") ==
        Endpoints{{false, "a", 2379}, {true, "b", 2380}, {false, "c", 1}, {false, "::1", 2379}});
  CHECK(parse_etcd_endpoints(" host ") == Endpoints{{false, "host", etcd_port_default}});
  CHECK(parse_etcd_endpoints("HTTPS://host/") == Endpoints{{true, "host", etcd_port_default}});
  CHECK(parse_etcd_endpoints("10.0.0.1:5") == Endpoints{{false, "10.0.0.1", 5}});
  CHECK(parse_etcd_endpoints("https://[fe80::1%eth0]") ==
        Endpoints{{true, "fe80::1%eth0", etcd_port_default}});
  // A repeated endpoint counts once.
  CHECK(parse_etcd_endpoints("a, a:2379 ,http://a") == Endpoints{{false, "a", 2379}});
}

TEST_CASE("an endpoint is written as it was read") {
  for (const char* text : {"http://a:2379", "https://10.0.0.1:1", "https://[::1]:2379"}) {
    CHECK(to_string(parse_etcd_endpoints(text)->front()) == text);
  }
  CHECK(host_and_port({true, "::1", 7}) == "[::1]:7");
}

TEST_CASE("each invalid endpoint is rejected with the valid form") {
  CHECK(why("") == "no etcd endpoint is given; write http://HOST:2379");
  CHECK(why("a,,b") == "there is an empty entry between commas");
  CHECK(why("ftp://a") == "\"ftp://a\" begins with ftp://; use http:// or https://");
  CHECK(why("me:secret@a") ==
        "\"me:secret@a\" has an @; give the user and the password separately");
  CHECK(why("http://a/v3") ==
        "\"http://a/v3\" has \"/v3\" after the address; give only a host and a port");
  CHECK(why("[::1") == "\"[::1\" has an opening bracket without a closing one");
  CHECK(why("::1") ==
        "\"::1\" has several colons; write an IPv6 address in brackets, such as [::1]:2379");
  CHECK(why("[::1]2379") == "\"[::1]2379\" has \"2379\" instead of \":port\"");
  for (const char* text : {"a:", "a:x", "a:0", "a:65536", "a:-1", "a: 1"}) {
    CAPTURE(text);
    CHECK(why(text).find("use a number from 1 to 65535 (the default of etcd is 2379)") !=
          std::string::npos);
  }
  for (const char* text : {"http://", "a b", "[]", "[host]:1", "http://:2379", "ä"}) {
    CAPTURE(text);
    CHECK(why(text).find("use a name, an IPv4 address, or an IPv6 address in brackets") !=
          std::string::npos);
  }
}

TEST_CASE("all errors are reported at once, and the number of endpoints is limited") {
  CHECK(why("a:x,b,c:y") ==
        "\"a:x\" has the invalid port \"x\"; use a number from 1 to 65535 (the default of etcd is "
        "2379); \"c:y\" has the invalid port \"y\"; use a number from 1 to 65535 (the default of "
        "etcd is 2379)");
  std::string many = "a";
  for (int each = 0; each < 20; ++each) many += ",a" + std::to_string(each);
  CHECK(why(many) == "21 etcd endpoints are given, and the maximum is 16");
}

}  // namespace etcd_endpoint_test
