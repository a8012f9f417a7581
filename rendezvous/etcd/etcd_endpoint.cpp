// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun {

namespace {

constexpr int port_max = 65535;
constexpr std::string_view plain = "http://";
constexpr std::string_view secure = "https://";

bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}
bool is_word(char byte) {
  return is_letter(byte) || (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' ||
         byte == '.';
}

bool is_host_name(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, is_word);
}

// Only tells an address from a typo; the resolver does the full check. A scope id may follow.
bool is_ipv6(std::string_view host) {
  const auto percent = host.find('%');
  if (percent != std::string_view::npos && !is_host_name(host.substr(percent + 1))) return false;
  const auto address = host.substr(0, percent);
  return address.find(':') != std::string_view::npos &&
         address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

tl::unexpected<Error> wrong(std::string_view whole, std::string_view why) {
  return failure(fmt::format("\"{}\" {}", whole, why));
}

// Removes the scheme; true if it is https.
Result<bool> take_scheme(std::string_view whole, std::string_view& rest) {
  const auto colon = rest.find("://");
  if (colon == std::string_view::npos) return false;
  const auto scheme = rest.substr(0, colon + 3);
  rest.remove_prefix(scheme.size());
  if (is_alike(scheme, plain)) return false;
  if (is_alike(scheme, secure)) return true;
  return wrong(whole, fmt::format("begins with {}; use http:// or https://", scheme));
}

Result<int> read_port(std::string_view whole, std::string_view text) {
  const auto port = exact_number<int>(text);
  if (port && *port > 0 && *port <= port_max) return *port;
  return wrong(
      whole,
      fmt::format(
          "has the invalid port \"{}\"; use a number from 1 to {} (the default of etcd is {})",
          text, port_max, etcd_port_default));
}

// The host, and the rest behind it.
Result<std::pair<std::string_view, std::string_view>> split_host(std::string_view whole,
                                                                 std::string_view rest) {
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos) {
      return wrong(whole, "has an opening bracket without a closing one");
    }
    return std::pair{rest.substr(1, close - 1), rest.substr(close + 1)};
  }
  if (std::ranges::count(rest, ':') > 1) {
    return wrong(whole,
                 "has several colons; write an IPv6 address in brackets, such as [::1]:2379");
  }
  const auto colon = std::min(rest.find(':'), rest.size());
  return std::pair{rest.substr(0, colon), rest.substr(colon)};
}

Result<EtcdEndpoint> parse_one(std::string_view text) {
  const auto whole = trimmed(text);
  if (whole.empty()) return failure("there is an empty entry between commas");
  std::string_view rest = whole;
  const auto is_secure = take_scheme(whole, rest);
  if (!is_secure) return tl::unexpected<Error>(is_secure.error());
  if (rest.find('@') != std::string_view::npos) {
    return wrong(whole, "has an @; give the user and the password separately");
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);  // as copied from a browser
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    return wrong(whole, fmt::format("has \"{}\" after the address; give only a host and a port",
                                    rest.substr(slash)));
  }
  const auto parts = split_host(whole, rest);
  if (!parts) return tl::unexpected<Error>(parts.error());
  const auto [host, port] = *parts;
  if (rest.starts_with('[') ? !is_ipv6(host) : !is_host_name(host)) {
    return wrong(whole, fmt::format("has the invalid host \"{}\"; use a name, an IPv4 address, or "
                                    "an IPv6 address in brackets",
                                    host));
  }
  EtcdEndpoint endpoint{*is_secure, std::string(host), etcd_port_default};
  if (port.empty()) return endpoint;
  if (!port.starts_with(':')) {
    return wrong(whole, fmt::format("has \"{}\" instead of \":port\"", port));
  }
  const auto number = read_port(whole, port.substr(1));
  if (!number) return tl::unexpected<Error>(number.error());
  endpoint.port = *number;
  return endpoint;
}

}  // namespace

Result<std::vector<EtcdEndpoint>> parse_etcd_endpoints(std::string_view text) {
  if (trimmed(text).empty()) {
    return failure("no etcd endpoint is given; write http://HOST:2379");
  }
  std::vector<EtcdEndpoint> endpoints;
  std::string wrongs;
  const auto parts = split(text, ',');
  if (parts.size() > bounds::etcd_endpoints_max) {
    return failure(fmt::format("{} etcd endpoints are given, and the maximum is {}", parts.size(),
                               bounds::etcd_endpoints_max));
  }
  for (const auto part : parts) {
    auto endpoint = parse_one(part);
    if (!endpoint) {
      wrongs += (wrongs.empty() ? "" : "; ") + endpoint.error().reason;
    } else if (std::ranges::find(endpoints, *endpoint) == endpoints.end()) {
      endpoints.push_back(std::move(*endpoint));
    }
  }
  if (!wrongs.empty()) return failure(std::move(wrongs));
  return endpoints;
}

std::string host_and_port(const EtcdEndpoint& endpoint) {
  const bool bracketed = endpoint.host.find(':') != std::string::npos;
  return bracketed ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                   : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

std::string to_string(const EtcdEndpoint& endpoint) {
  return std::string(endpoint.is_secure ? secure : plain) + host_and_port(endpoint);
}

}  // namespace cpprun
