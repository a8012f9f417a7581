// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "proto/bounds.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/secure/token.h"
#include "rendezvous/io/secret_file.h"

namespace secure_token_test {

using namespace cpprun;

namespace {

const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
constexpr std::int64_t expiry = 1800000000;

const OpenSsl& openssl() {
  static const auto opened = open_openssl();
  REQUIRE_MESSAGE(opened, opened.error().reason);
  return *opened;
}

Secrets secrets_of(const std::string& id, const std::string& key = digits) {
  auto secrets = parse_secrets("cpprun1:" + id + ":" + key, make_key_memory);
  REQUIRE(secrets);
  return *secrets;
}

std::string token_of(const TokenTerms& terms, const std::string& id = "2026.a") {
  return make_token(openssl(), secrets_of(id).front(), terms);
}

WallTime at(std::int64_t unix_seconds) {
  return WallTime(std::chrono::seconds(unix_seconds));
}

std::string answer(const std::string& token, const TokenUse& use = {},
                   WallTime now = at(expiry - 1), const std::string& id = "2026.a") {
  const auto terms = check_token(openssl(), secrets_of(id), token, now, use);
  return terms ? "good" : terms.error().reason;
}

constexpr TokenUse to_read{.purpose = TokenPurpose::read};
constexpr TokenUse to_order{.purpose = TokenPurpose::control};
const std::string no_token = "this is not a token of cpprun, or only a part of one";

}  // namespace

// The MACs were computed with Python: hmac.new(hmac.new(bytes(range(32)), b"cpprun token",
// "sha256").digest(), said, "sha256").
TEST_CASE("a token can be made from its documentation alone") {
  CHECK(token_of({.purpose = TokenPurpose::read, .expiry_unix_seconds = expiry}) ==
        "cpprun1.2026.a.read.1800000000."
        "7fed1bbacb8a7672bb5e24d5bfdec90ea18c805d5fc063d7aaea9313e09abcf4");
  CHECK(token_of(
            {.purpose = TokenPurpose::control, .expiry_unix_seconds = expiry, .job = "tonight"}) ==
        "cpprun1.2026.a.order.1800000000.j746f6e69676874."
        "d2b3f3b6fe5e25203e80c94a64260cb815605713f41962301ec3112754b4f610");
}

TEST_CASE("a token grants the access that it was made for") {
  const TokenTerms terms{.purpose = TokenPurpose::read, .expiry_unix_seconds = expiry};
  const auto found = check_token(openssl(), secrets_of("2026.a"), token_of(terms), at(0), to_read);
  REQUIRE(found);
  CHECK(*found == terms);
  const TokenTerms narrow{
      .purpose = TokenPurpose::control, .expiry_unix_seconds = expiry, .job = "a.b\n\xff"};
  const auto of_job = check_token(openssl(), secrets_of("2026.a"), token_of(narrow), at(0),
                                  {.purpose = TokenPurpose::control, .job = "a.b\n\xff"});
  REQUIRE(of_job);
  CHECK(*of_job == narrow);
}

TEST_CASE("a read token gives no control access, and a control token includes read access") {
  const auto reads = token_of({.purpose = TokenPurpose::read, .expiry_unix_seconds = expiry});
  const auto orders = token_of({.purpose = TokenPurpose::control, .expiry_unix_seconds = expiry});
  CHECK(answer(reads, to_read) == "good");
  CHECK(answer(reads, to_order) ==
        "this command needs control access, and the token gives only read access");
  CHECK(answer(orders, to_order) == "good");
  CHECK(answer(orders, to_read) == "good");
}

TEST_CASE("a token expires after its last second, and the error says since when") {
  const auto token = token_of({.purpose = TokenPurpose::read, .expiry_unix_seconds = expiry});
  CHECK(answer(token, to_read, at(expiry - 1)) == "good");
  CHECK(answer(token, to_read, at(expiry)) ==
        "the token expired 0 s ago; create another with \"cpprunctl token\"");
  CHECK(answer(token, to_read, at(expiry + 119)).find(" 119 s ago") != std::string::npos);
  CHECK(answer(token, to_read, at(expiry + 120)).find(" 2 min ago") != std::string::npos);
  CHECK(answer(token, to_read, at(expiry + 7200)).find(" 2 h ago") != std::string::npos);
  CHECK(answer(token, to_read, at(expiry + 172800)).find(" 2 d ago") != std::string::npos);
}

TEST_CASE("a token for one job is rejected for another job, and for requests about all jobs") {
  const auto token =
      token_of({.purpose = TokenPurpose::control, .expiry_unix_seconds = expiry, .job = "a"});
  CHECK(answer(token, {.purpose = TokenPurpose::control, .job = "a"}) == "good");
  CHECK(answer(token, {.purpose = TokenPurpose::read, .job = "a"}) == "good");
  CHECK(answer(token, {.purpose = TokenPurpose::control, .job = "b"}) ==
        "the token is for job \"a\" only");
  CHECK(answer(token, to_order) == "the token is for job \"a\" only");
  const auto of_all = token_of({.purpose = TokenPurpose::read, .expiry_unix_seconds = expiry});
  CHECK(answer(of_all, {.purpose = TokenPurpose::read, .job = "b"}) == "good");
}

TEST_CASE("a token of an unknown secret is rejected with the secret's name") {
  const auto token = token_of({.expiry_unix_seconds = expiry});
  CHECK(answer(token, to_read, at(0), "other") ==
        "the token was made with the secret \"2026.a\", which this server does not have");
  // The same name, another key.
  const auto flipped =
      check_token(openssl(), secrets_of("2026.a", "ff" + digits.substr(2)), token, at(0), to_read);
  REQUIRE_FALSE(flipped);
  CHECK(flipped.error().reason ==
        "the token is damaged, or was made with another secret with the id \"2026.a\"");
}

TEST_CASE("a token of either of two secrets is valid") {
  auto both = secrets_of("new", "ff" + digits.substr(2));
  both.push_back(secrets_of("old").front());
  for (const auto& secret : both) {
    const auto token = make_token(openssl(), secret, {.expiry_unix_seconds = expiry});
    CHECK(check_token(openssl(), both, token, at(0), to_read));
  }
}

TEST_CASE("no byte of a token can be changed, added or removed") {
  const auto token =
      token_of({.purpose = TokenPurpose::read, .expiry_unix_seconds = expiry, .job = "a"});
  const TokenUse use{.purpose = TokenPurpose::read, .job = "a"};
  REQUIRE(answer(token, use) == "good");
  for (std::size_t at_byte = 0; at_byte < token.size(); ++at_byte) {
    auto changed = token;
    changed[at_byte] = static_cast<char>(changed[at_byte] ^ 1);
    CHECK(answer(changed, use) != "good");
    CHECK(answer(token.substr(0, at_byte), use) != "good");
    CHECK(answer(token.substr(0, at_byte) + "0" + token.substr(at_byte), use) != "good");
  }
  CHECK(answer(token + "0", use) != "good");
}

TEST_CASE("an invalid token is rejected as such") {
  const std::string mac(64, '0');
  CHECK(answer("") == no_token);
  CHECK(answer("cpprun1.") == no_token);
  CHECK(answer("cpprun1..") == no_token);
  CHECK(answer("cpprun1....") == no_token);
  CHECK(answer("cpprun1." + mac) == no_token);
  CHECK(answer("cpprun1.read.1." + mac) == no_token);
  CHECK(answer("cpprun1..read.1." + mac) == no_token);
  CHECK(answer("cpprun1.a b.read.1." + mac) == no_token);
  CHECK(answer("cpprun1.a.write.1." + mac) == no_token);
  CHECK(answer("cpprun1.a.read.." + mac) == no_token);
  CHECK(answer("cpprun1.a.read.1x." + mac) == no_token);
  CHECK(answer("cpprun1.a.read.99999999999999999999." + mac) == no_token);
  CHECK(answer("cpprun1.a.read.1.j." + mac) == no_token);
  CHECK(answer("cpprun1.a.read.1.j6." + mac) == no_token);
  CHECK(answer("cpprun1.a.read.1.j6g." + mac) == no_token);
  CHECK(answer("cpprun2.a.read.1." + mac) == no_token);
  CHECK(answer(std::string("cpprun1.a.read.1\0.", 18) + mac) == no_token);
}

TEST_CASE("the longest possible token is within the limit, and a longer text is not parsed") {
  const std::string id(64, 'i');
  const std::string job(bounds::job_id_bytes_max, 'j');
  const auto longest = token_of({.purpose = TokenPurpose::control,
                                 .expiry_unix_seconds = std::numeric_limits<std::int64_t>::max(),
                                 .job = job},
                                id);
  CHECK(longest.size() <= token_bytes_max);
  CHECK(answer(longest, {.purpose = TokenPurpose::control, .job = job}, at(0), id) == "good");
  CHECK(answer("cpprun1.a.read.1.j" + std::string(token_bytes_max, '6') + ".0") == no_token);
}

}  // namespace secure_token_test
