// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/http_routes.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "tests/proto/secure_pair.h"

namespace token_routes_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t expiry = 2'000'000'000;
constexpr WallTime in_time{std::chrono::seconds(expiry - 1)};

http::Request asking(const std::string& target, http::Method method = http::Method::get) {
  return {.method = method, .target = target};
}

std::string bearer(const Secret& secret, const TokenTerms& terms) {
  return "Bearer " + make_token(openssl(), secret, terms);
}

}  // namespace

TEST_CASE("the request determines the access that its token needs") {
  using enum TokenPurpose;
  CHECK(token_wanted_for(asking("/metrics")) == WantedToken{read, ""});
  CHECK(token_wanted_for(asking("/api/v1/jobs")) == WantedToken{read, ""});
  CHECK(token_wanted_for(asking("/api/v1/jobs/a%20b?x=1")) == WantedToken{read, "a b"});
  CHECK(token_wanted_for(asking("/api/v1/jobs/a/nodes?after=3")) == WantedToken{read, "a"});
  // Parsed like the handler parses it: another job, whatever its name starts with.
  CHECK(token_wanted_for(asking("/api/v1/jobs/a/b")) == WantedToken{read, "a/b"});
  CHECK(token_wanted_for(asking("/api/v1/jobs/a/stop", http::Method::post)) ==
        WantedToken{control, "a"});
  CHECK(token_wanted_for(asking("/api/v1/hosts/a/exclude", http::Method::post)) ==
        WantedToken{control, ""});
}

TEST_CASE("a request is judged by its token") {
  const Secret secret = secret_named("blue");
  const auto secure = server_of({secret});
  auto request = asking("/api/v1/jobs/mine");
  request.authorization = bearer(secret, {.expiry_unix_seconds = expiry});
  const auto shown = credential_of(request, *secure, in_time);
  REQUIRE(shown);
  CHECK(shown->holder == "a token of the secret \"blue\"");
  CHECK_FALSE(shown->may_control);
  CHECK_FALSE(shown->owner);
  CHECK(shown->lasts == std::chrono::seconds(expiry) - in_time.time_since_epoch());
  const std::string token = request.authorization.substr(std::string_view("Bearer ").size());
  for (const auto* scheme : {"bearer ", "BEARER ", "Bearer   "}) {
    CAPTURE(scheme);
    request.authorization = scheme + token;
    CHECK(credential_of(request, *secure, in_time));
  }
  for (const auto* scheme : {"", "Bearer", "Bearers ", "Bear "}) {
    CAPTURE(scheme);
    request.authorization = scheme + token;
    CHECK_FALSE(credential_of(request, *secure, in_time));
  }
  request.authorization = bearer(secret, {.expiry_unix_seconds = 9'223'372'036'854'775'807});
  CHECK(credential_of(request, *secure, in_time)->lasts == std::chrono::years(10));
  request.authorization = bearer(secret, {.expiry_unix_seconds = expiry});
  CHECK_FALSE(credential_of(request, *secure, in_time + 1s));

  request.authorization = bearer(secret, {.expiry_unix_seconds = expiry, .job = "other"});
  CHECK(credential_of(request, *secure, in_time).error().reason ==
        "the token is for job \"other\" only");
  request.authorization = bearer(secret_named("red"), {.expiry_unix_seconds = expiry});
  CHECK_FALSE(credential_of(request, *secure, in_time));
  request.authorization = "Basic YTpi";
  CHECK(credential_of(request, *secure, in_time).error().reason ==
        "not a token (expected Authorization: Bearer cpprun1…)");

  auto command = asking("/api/v1/jobs/mine/stop", http::Method::post);
  command.authorization = bearer(secret, {.expiry_unix_seconds = expiry});
  CHECK(credential_of(command, *secure, in_time).error().reason ==
        "this command needs control access, and the token gives only read access");
  command.authorization = bearer(
      secret, {.purpose = TokenPurpose::control, .expiry_unix_seconds = expiry, .job = "mine"});
  CHECK(credential_of(command, *secure, in_time)->may_control);
}

}  // namespace token_routes_test
