// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The numeric address of who is at the other end of a connection. A value: comparing and printing
// it never asks a name server, which on a path that serves would freeze everybody.

#include <array>
#include <cstdint>
#include <string>

namespace cpprun {

struct PeerAddress {
  std::array<std::uint8_t, 16> ip{};  // IPv6; an IPv4 address in its mapped form ::ffff:a.b.c.d
  std::uint16_t port = 0;
  friend bool operator==(const PeerAddress&, const PeerAddress&) = default;

  bool is_ipv4() const;      // mapped
  bool is_loopback() const;  // ::1 or 127.0.0.0/8
  // "10.0.0.1:5000" or "[fe80::1]:5000".
  std::string text() const;
  // "10.0.0.1" or "fe80::1".
  std::string host_text() const;

  // Who counts as one where somebody may have so much: an IPv4 address, or the first 64 bits of an
  // IPv6 one, without a port. Whoever has one of those has all 2^64 addresses that begin with it.
  PeerAddress source() const;
  // Of a source: "10.0.0.1" or "2001:db8:1:2::/64".
  std::string source_text() const;
};

}  // namespace cpprun
