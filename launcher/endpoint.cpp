// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/endpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr int endpoint_port_max = 65535;

bool is_word(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.';
}

bool looks_like_name(std::string_view host) {
  return !host.empty() && std::all_of(host.begin(), host.end(), is_word);
}

// Enough to tell an address from a typo; the resolver does the full check. A scope such as %eth0
// may follow.
bool looks_like_ipv6(std::string_view host) {
  const auto percent = host.find('%');
  if (percent != std::string_view::npos && !looks_like_name(host.substr(percent + 1))) return false;
  const auto address = host.substr(0, percent);
  return address.find(':') != std::string_view::npos &&
         address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

Result<int> parse_port(std::string_view text, std::string_view whole) {
  const auto port = exact_number<int>(text);
  if (!port || *port < 0 || *port > endpoint_port_max) {
    return failure(fmt::format("\"{}\": port \"{}\" is not a number from 0 to {}", whole, text,
                               endpoint_port_max));
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
    if (!looks_like_ipv6(host)) return no_host(whole, host);
    if (rest == ":") return failure(fmt::format("\"{}\": no port after the colon", whole));
  } else if (std::count(whole.begin(), whole.end(), ':') > 1) {
    // torchrun takes the last group of a bare IPv6 address for a port, which is never intended.
    if (!looks_like_ipv6(host)) return no_host(whole, host);
  } else if (const auto colon = whole.find(':'); colon != std::string_view::npos) {
    host = whole.substr(0, colon);
    port = whole.substr(colon + 1);
    if (port.empty()) return failure(fmt::format("\"{}\": no port after the colon", whole));
  }
  if (!looks_like_ipv6(host) && !looks_like_name(host)) return no_host(whole, host);
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

}  // namespace cpprun
