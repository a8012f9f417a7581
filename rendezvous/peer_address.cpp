// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/peer_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace cpprun {
namespace {

constexpr std::array<std::uint8_t, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::array<std::uint8_t, 16> ipv6_loopback{0, 0, 0, 0, 0, 0, 0, 0,
                                                     0, 0, 0, 0, 0, 0, 0, 1};

}  // namespace

bool PeerAddress::is_ipv4() const {
  return std::equal(mapped_prefix.begin(), mapped_prefix.end(), ip.begin());
}

bool PeerAddress::is_loopback() const {
  return is_ipv4() ? ip[mapped_prefix.size()] == 127 : ip == ipv6_loopback;
}

std::string PeerAddress::host_text() const {
  if (is_ipv4()) return fmt::format("{}.{}.{}.{}", ip[12], ip[13], ip[14], ip[15]);
  std::array<char, INET6_ADDRSTRLEN> text{};
  // Cannot fail: the address family is known, and the buffer is large enough for it.
  (void)inet_ntop(AF_INET6, ip.data(), text.data(), text.size());
  return text.data();
}

PeerAddress PeerAddress::source() const {
  PeerAddress source{ip, 0};
  if (is_ipv4() || is_loopback()) return source;
  std::fill(source.ip.begin() + source.ip.size() / 2, source.ip.end(), std::uint8_t{0});
  return source;
}

std::string PeerAddress::source_text() const {
  return is_ipv4() || is_loopback() ? host_text() : source().host_text() + "/64";
}

std::string PeerAddress::text() const {
  return is_ipv4() ? fmt::format("{}:{}", host_text(), port)
                   : fmt::format("[{}]:{}", host_text(), port);
}

}  // namespace cpprun
