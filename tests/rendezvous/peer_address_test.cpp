// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/peer_address.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("an IPv4 peer is shown as people write it") {
  const PeerAddress peer{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}, 5000};
  CHECK(peer.is_ipv4());
  CHECK_FALSE(peer.is_loopback());
  CHECK(peer.text() == "10.0.0.1:5000");
}

TEST_CASE("an IPv6 peer stands in brackets before its port") {
  PeerAddress peer{{0xfe, 0x80}, 5000};
  peer.ip[15] = 1;
  CHECK(peer.text() == "[fe80::1]:5000");
  CHECK(peer.host_text() == "fe80::1");
  CHECK_FALSE(peer.is_ipv4());
}

TEST_CASE("loopback is known in both families") {
  CHECK(PeerAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1}.is_loopback());
  CHECK(PeerAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 1, 2, 3}, 1}.is_loopback());
}
