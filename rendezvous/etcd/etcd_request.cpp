// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/etcd_request.h"

#include <fmt/format.h>

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
