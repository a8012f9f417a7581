// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/peer_address.h"

#include <doctest/doctest.h>

namespace peer_address_test {

using namespace cpprun;

TEST_CASE("an IPv4 peer is printed in the usual notation") {
  const PeerAddress peer{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}, 5000};
  CHECK(peer.is_ipv4());
  CHECK_FALSE(peer.is_loopback());
  CHECK(peer.text() == "10.0.0.1:5000");
}

TEST_CASE("an IPv6 peer has brackets before its port") {
  PeerAddress peer{{0xfe, 0x80}, 5000};
  peer.ip[15] = 1;
  CHECK(peer.text() == "[fe80::1]:5000");
  CHECK(peer.host_text() == "fe80::1");
  CHECK_FALSE(peer.is_ipv4());
}

TEST_CASE("loopback is recognised in both families") {
  CHECK(PeerAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1}.is_loopback());
  CHECK(PeerAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 1, 2, 3}, 1}.is_loopback());
}

TEST_CASE("a source is an IPv4 address, or all IPv6 addresses with the same first half") {
  const PeerAddress four{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}, 5000};
  CHECK(four.source() == PeerAddress{four.ip, 0});
  CHECK(four.source_text() == "10.0.0.1");
  PeerAddress six{{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 9, 9}, 5000};
  six.ip[15] = 7;
  CHECK(six.source() == PeerAddress{{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2}, 0});
  CHECK(six.source_text() == "2001:db8:1:2::/64");
  const PeerAddress here{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1};
  CHECK(here.source_text() == "::1");
}

}  // namespace peer_address_test
