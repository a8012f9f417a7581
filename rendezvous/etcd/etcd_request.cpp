// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/text.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun {

namespace {

constexpr std::string_view plain = "http://";
constexpr std::string_view secure = "https://";

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
  return to_string(Endpoint{endpoint.host, endpoint.port});
}

std::string to_string(const EtcdEndpoint& endpoint) {
  return std::string(endpoint.is_secure ? secure : plain) + host_and_port(endpoint);
}

}  // namespace cpprun

namespace cpprun::etcd {

namespace {

using Kind = Failure::Kind;

// The gRPC codes that etcd uses.
enum Code {
  canceled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16
};

bool says(std::string_view words, std::string_view part) {
  return words.find(part) != std::string_view::npos;
}

Kind kind_of_argument(std::string_view words) {
  // No token, or a token from before a change of etcd's users.
  if (says(words, "user name is empty") || says(words, "auth store is old")) {
    return Kind::unauthenticated;
  }
  return says(words, "authentication failed") ? Kind::forbidden : Kind::rejected;
}

Kind kind_of_state(std::string_view words) {
  if (says(words, "lease already exists")) return Kind::lease_exists;
  return says(words, "authentication is not enabled") ? Kind::no_authentication : Kind::rejected;
}

}  // namespace

bool is_of_this_member(Kind kind) {
  return kind == Kind::unreachable || kind == Kind::silent || kind == Kind::unavailable ||
         kind == Kind::nonsense;
}

bool may_have_happened(Kind kind) {
  // The change that uses up the space is applied, but gets the same error as those after it.
  return kind == Kind::silent || kind == Kind::unavailable || kind == Kind::nonsense ||
         kind == Kind::no_space;
}

Kind kind_of(int code, std::string_view words) {
  switch (code) {
    case invalid_argument:
      return kind_of_argument(words);
    case not_found:
      return says(words, "lease not found") ? Kind::no_such_lease : Kind::rejected;
    case permission_denied:
      return Kind::forbidden;
    case resource_exhausted:
      return says(words, "space exceeded") ? Kind::no_space : Kind::unavailable;
    case failed_precondition:
      return kind_of_state(words);
    case unauthenticated:
      return Kind::unauthenticated;
    case canceled:
    case unknown:
    case deadline_exceeded:
    case aborted:
    case internal:
    case unavailable:
    case data_loss:
      return Kind::unavailable;
    default:
      return Kind::rejected;
  }
}

std::string describe(const Failure& failure, const EtcdEndpoint& endpoint) {
  const std::string who = fmt::format("etcd at {}", to_string(endpoint));
  switch (failure.kind) {
    case Kind::unreachable:
      return fmt::format("{} cannot be reached: {}", who, failure.said);
    case Kind::silent:
      return fmt::format("{} is not responding: {}", who, failure.said);
    case Kind::unavailable:
      return fmt::format(
          "{} has no quorum (\"{}\"); more than half of its members must run and reach each other",
          who, failure.said);
    case Kind::no_space:
      return fmt::format(
          "{} is out of space (\"{}\"); compact and defragment it, or raise its quota, then run "
          "`etcdctl alarm disarm`",
          who, failure.said);
    case Kind::unauthenticated:
      return fmt::format("{} requires authentication (\"{}\"); give a user and a password", who,
                         failure.said);
    case Kind::forbidden:
      return fmt::format(
          "{} denied access (\"{}\"); check the user and the password, and that this user may read "
          "and write the keys of cpprun",
          who, failure.said);
    case Kind::no_such_lease:
    case Kind::lease_exists:
    case Kind::no_authentication:
    case Kind::rejected:
      return fmt::format("{} rejected the request: \"{}\"", who, failure.said);
    case Kind::nonsense:
      return fmt::format("the server at {} is not etcd 3.4 or later: {}", to_string(endpoint),
                         failure.said);
  }
  return who;
}

std::optional<Authenticate> Credentials::needed() const {
  if (user_.empty() || is_unknown_ || !token_.empty()) return std::nullopt;
  return Authenticate{user_, password_};
}

bool Credentials::hear(const Failure& failed) {
  is_unknown_ = failed.kind == Failure::Kind::no_authentication;
  return is_unknown_;
}

bool Credentials::may_ask_again(const Failure& failed, const std::string& used) {
  if (user_.empty() || failed.kind != Failure::Kind::unauthenticated) return false;
  // etcd may have enabled authentication since, and another request may have fetched a new token.
  is_unknown_ = false;
  if (token_ == used) token_.clear();
  return true;
}

}  // namespace cpprun::etcd
