// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/token_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "proto/text.h"
#include "rendezvous/coordinator/status_routes.h"

namespace cpprun {

namespace {

constexpr std::string_view jobs_prefix = "/api/v1/jobs/";
constexpr std::string_view nodes_suffix = "/nodes";
constexpr std::string_view bearer = "Bearer";

// Behind the scheme, whose name has no case, and the blanks after it (RFC 9110, 11.4).
std::optional<std::string_view> shown_token(std::string_view authorization) {
  if (!is_alike(authorization.substr(0, bearer.size()), bearer)) return std::nullopt;
  authorization.remove_prefix(bearer.size());
  if (!authorization.starts_with(' ')) return std::nullopt;
  return trimmed(authorization);
}

}  // namespace

WantedToken token_wanted_for(const http::Request& request) {
  const bool orders = request.method == http::Method::post;
  WantedToken wanted{.purpose = orders ? TokenPurpose::order : TokenPurpose::read};
  std::string_view target = request.target;
  if (!target.starts_with(jobs_prefix)) return wanted;
  target.remove_prefix(jobs_prefix.size());
  // Cut as what answers cuts it, so that a token for "a" is not good for "a/b". What is no name is
  // refused there, whoever asks.
  target = target.substr(0, orders ? target.find('/') : target.find('?'));
  if (!orders && target.ends_with(nodes_suffix)) target.remove_suffix(nodes_suffix.size());
  wanted.job = unescaped(target).value_or("");
  return wanted;
}

Holder holder_of(const HolderOf& holder_of, const std::string& secret_id) {
  return holder_of ? holder_of(secret_id) : Holder{};
}

// Of a token that is valid now. As long as a timer can count, at most.
Duration time_left(const TokenTerms& terms, WallTime now) {
  constexpr std::chrono::seconds most = std::chrono::years(10);
  const auto since_1970 = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch());
  return std::min(most, std::chrono::seconds(terms.expiry_unix_seconds) - since_1970);
}

Credential credential_of(const std::string& secret_id, const std::string& address,
                         const HolderOf& whose) {
  Credential credential{.holder = fmt::format("{} with the secret \"{}\"", address, secret_id),
                        .may_order = true};
  if (Holder holder = holder_of(whose, secret_id); !holder.sees_all) {
    credential.owner = std::move(holder.owner);
  }
  return credential;
}

Result<Credential> credential_of(const http::Request& request, const SecureContext& secure,
                                 WallTime now, const HolderOf& whose) {
  const auto token = shown_token(request.authorization);
  if (!token) return failure("what it shows is no token (Authorization: Bearer cpprun1…)");
  const std::string_view shown = *token;
  const WantedToken wanted = token_wanted_for(request);
  const auto terms = check_token(secure.openssl(), secure.secrets(), shown, now,
                                 {.purpose = wanted.purpose, .job = wanted.job});
  if (!terms) return tl::unexpected<Error>(terms.error());
  const std::string id = secret_id_of_token(shown);
  Credential credential{.holder = fmt::format("a token of the secret \"{}\"", id),
                        .may_order = terms->purpose == TokenPurpose::order,
                        .lasts = time_left(*terms, now)};
  if (Holder holder = holder_of(whose, id); !holder.sees_all) {
    credential.owner = std::move(holder.owner);
  }
  return credential;
}

}  // namespace cpprun
