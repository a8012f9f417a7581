// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The numeric address of a peer. Comparing and printing it never queries a name server: a slow DNS
// reply would block all clients.

#include <array>
#include <cstdint>
#include <string>

namespace cpprun {

struct PeerAddress {
  std::array<std::uint8_t, 16> ip{};  // IPv6, or IPv4 as the mapped address ::ffff:a.b.c.d
  std::uint16_t port = 0;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;

  bool is_ipv4() const;      // an IPv4-mapped address
  bool is_loopback() const;  // ::1 or 127.0.0.0/8
  // "10.0.0.1:5000" or "[fe80::1]:5000".
  std::string text() const;
  // "10.0.0.1" or "fe80::1".
  std::string host_text() const;

  // The unit to which per-address limits apply: an IPv4 address, or the /64 prefix of an IPv6
  // address, without the port. A host with one address of a /64 can use all 2^64 addresses in it.
  PeerAddress source() const;
  // The text of source(): "10.0.0.1" or "2001:db8:1:2::/64".
  std::string source_text() const;
};

}  // namespace cpprun
