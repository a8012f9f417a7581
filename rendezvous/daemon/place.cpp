// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/place.h"

#include <fmt/format.h>

#include <charconv>

namespace cpprun {

namespace {

constexpr int port_max = 65'535;

}  // namespace

Result<Place> parse_place(std::string_view text, int port_default) {
  const auto wrong = [&](const char* what) {
    return failure(fmt::format("\"{}\" {}; write HOST, HOST:PORT or [IPv6]:PORT", text, what));
  };
  Place place{.host = {}, .port = port_default};
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == text.npos) return wrong("has no closing bracket");
    place.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const auto colon = text.find(':');
    if (colon != text.rfind(':')) return wrong("has several colons and no brackets");
    place.host = text.substr(0, colon);
    if (colon != text.npos) port = text.substr(colon);
  }
  if (place.host.empty()) return wrong("has no host");
  if (port.empty()) return place;
  const auto* const end = port.data() + port.size();
  const auto [rest, error] = std::from_chars(port.data() + 1, end, place.port);
  const bool is_port = port[0] == ':' && error == std::errc{} && rest == end && place.port > 0 &&
                       place.port <= port_max;
  if (!is_port) return wrong("has no port from 1 to 65535");
  return place;
}

std::string to_string(const Place& place) {
  const bool is_ipv6 = place.host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", place.host, place.port)
                 : fmt::format("{}:{}", place.host, place.port);
}

bool is_one_address(std::string_view host) {
  return host.find_first_not_of("0123456789.:abcdefABCDEF") == std::string_view::npos &&
         host.find_first_of(".:") != std::string_view::npos && host != "0.0.0.0" && host != "::";
}

std::string host_of_place(std::string_view place) {
  const auto parsed = parse_place(place);
  return parsed ? parsed->host : std::string();
}

int port_of_place(std::string_view place) {
  const auto parsed = parse_place(place);
  return parsed ? parsed->port : 0;
}

std::string member_name(std::string_view name, std::string_view life) {
  std::string member(name);
  member += life_mark;
  member += life;
  return member;
}

std::string_view called(std::string_view member) {
  return member.substr(0, member.rfind(life_mark));
}

}  // namespace cpprun
