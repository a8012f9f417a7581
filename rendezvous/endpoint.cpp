// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "proto/link/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

bool is_word(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.';
}

Result<int> parse_port(std::string_view text, std::string_view whole) {
  const auto port = exact_number<int>(text);
  if (!port || *port < 0 || *port > port_max) {
    return failure(
        fmt::format("\"{}\": port \"{}\" is not a number from 0 to {}", whole, text, port_max));
  }
  return *port;
}

tl::unexpected<Error> no_host(std::string_view whole, std::string_view host) {
  return failure(fmt::format(
      "\"{}\": host \"{}\" is not a name, an IPv4 address or an IPv6 address (in brackets before a "
      "port)",
      whole, host));
}

}  // namespace

bool is_host_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), is_word);
}

bool is_ipv6(std::string_view host) {
  const auto percent = host.find('%');
  if (percent != std::string_view::npos && !is_host_name(host.substr(percent + 1))) return false;
  const auto address = host.substr(0, percent);
  return address.find(':') != std::string_view::npos &&
         address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

Result<Endpoint> parse_endpoint(std::string_view text, int port_default) {
  const auto whole = trimmed(text);
  std::string_view host = whole;
  std::string_view port;
  if (whole.starts_with('[')) {
    const auto close = whole.find(']');
    if (close == std::string_view::npos) {
      return failure(fmt::format("\"{}\": the closing bracket is missing", whole));
    }
    host = whole.substr(1, close - 1);
    const auto rest = whole.substr(close + 1);
    if (!rest.empty() && !rest.starts_with(':')) {
      return failure(fmt::format("\"{}\": \"{}\" after the bracket is not \":port\"", whole, rest));
    }
    port = rest.empty() ? rest : rest.substr(1);
    if (!is_ipv6(host)) return no_host(whole, host);
    if (rest == ":") return failure(fmt::format("\"{}\": no port after the colon", whole));
  } else if (std::count(whole.begin(), whole.end(), ':') > 1) {
    // torchrun takes the last group of a bare IPv6 address for a port, which is never intended.
    if (!is_ipv6(host)) return no_host(whole, host);
  } else if (const auto colon = whole.find(':'); colon != std::string_view::npos) {
    host = whole.substr(0, colon);
    port = whole.substr(colon + 1);
    if (port.empty()) return failure(fmt::format("\"{}\": no port after the colon", whole));
  }
  if (!is_ipv6(host) && !is_host_name(host)) return no_host(whole, host);
  if (port.empty()) return Endpoint{std::string(host), port_default};
  const auto number = parse_port(port, whole);
  if (!number) return tl::unexpected(number.error());
  return Endpoint{std::string(host), *number};
}

Result<std::vector<Endpoint>> parse_endpoints(std::string_view text, int port_default) {
  std::vector<Endpoint> endpoints;
  for (const std::string_view part : split(text, ',')) {
    if (trimmed(part).empty() && part.size() < text.size()) {
      return failure(fmt::format("\"{}\" has an empty entry between commas", trimmed(text)));
    }
    auto endpoint = parse_endpoint(part, port_default);
    if (!endpoint) return tl::unexpected(endpoint.error());
    if (std::ranges::find(endpoints, *endpoint) != endpoints.end()) {
      return failure(fmt::format("\"{}\" is listed twice; list each cpprund of a cluster once",
                                 to_string(*endpoint)));
    }
    endpoints.push_back(*std::move(endpoint));
  }
  if (endpoints.size() > bounds::members_max) {
    return failure(fmt::format("{} endpoints, but a cluster has at most {} cpprunds",
                               endpoints.size(), bounds::members_max));
  }
  return endpoints;
}

Result<std::string> parse_host(std::string_view text) {
  constexpr int no_port = -1;
  auto endpoint = parse_endpoint(text, no_port);
  if (!endpoint) return tl::unexpected(endpoint.error());
  if (endpoint->port != no_port) {
    return failure(
        fmt::format("\"{}\" has a port, but only a host is allowed here", trimmed(text)));
  }
  return endpoint->host;
}

std::string to_string(const Endpoint& endpoint) {
  const bool bracketed = endpoint.host.find(':') != std::string::npos;
  return bracketed ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                   : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

std::string to_string(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& each : endpoints) text += (text.empty() ? "" : ", ") + to_string(each);
  return text;
}

bool is_loopback(std::string_view host) {
  const bool address = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (address && host.starts_with("127."));
}

Result<Endpoint> parse_member_address(std::string_view text, int port_default) {
  const auto wrong = [&](const char* what) {
    return failure(fmt::format("\"{}\" {}; write HOST, HOST:PORT or [IPv6]:PORT", text, what));
  };
  Endpoint place{.host = {}, .port = port_default};
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

bool is_one_address(std::string_view host) {
  return host.find_first_not_of("0123456789.:abcdefABCDEF") == std::string_view::npos &&
         host.find_first_of(".:") != std::string_view::npos && host != "0.0.0.0" && host != "::";
}

std::string host_of_member(std::string_view place) {
  const auto parsed = parse_member_address(place);
  return parsed ? parsed->host : std::string();
}

int port_of_member(std::string_view place) {
  const auto parsed = parse_member_address(place);
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
