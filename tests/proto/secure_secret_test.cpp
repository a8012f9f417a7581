// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <string>

#include "proto/secure/secret.h"
#include "rendezvous/io/secret_file.h"

namespace secure_secret_test {

using namespace cpprun;

namespace {

const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
const std::string line = "cpprun1:2026-11.a_b:" + digits;

std::string reason_of(const std::string& text) {
  const auto parsed = parse_secrets(text, make_key_memory);
  return parsed ? "taken" : parsed.error().reason;
}

}  // namespace

TEST_CASE("a secret survives a round trip through its file format") {
  const auto secrets = parse_secrets(line + "\n", make_key_memory);
  REQUIRE(secrets);
  REQUIRE(secrets->size() == 1);
  const Secret& secret = secrets->front();
  CHECK(secret.id == "2026-11.a_b");
  CHECK((*secret.key)[0] == 0);
  CHECK((*secret.key)[26] == 0x1a);
  CHECK((*secret.key)[31] == 0x1f);
  const auto again = parse_secrets(secret_line(secret), make_key_memory);
  REQUIRE(again);
  CHECK(*again->front().key == *secret.key);
}

TEST_CASE("a file may hold two secrets, comments, and line ends of other systems") {
  const auto secrets = parse_secrets("# old\r\n" + line + "\r\n\n  cpprun1:next:" + digits + "  \n",
                                     make_key_memory);
  REQUIRE(secrets);
  REQUIRE(secrets->size() == 2);
  CHECK(secrets->front().id == "2026-11.a_b");
  CHECK(find_secret(*secrets, "next") == &secrets->back());
  CHECK(find_secret(*secrets, "nex") == nullptr);
}

TEST_CASE("an invalid secret is reported with its line but without its content") {
  CHECK(reason_of("") == "no secret found");
  CHECK(reason_of("# only a remark\n\n") == "no secret found");
  CHECK(reason_of("\n" + digits) ==
        "line 2 is not a cpprun secret; expected cpprun1:ID:KEY, where KEY is 64 hexadecimal "
        "digits");
  CHECK(reason_of("cpprun2:a:" + digits) ==
        "line 1 is not a cpprun secret; expected cpprun1:ID:KEY, where KEY is 64 hexadecimal "
        "digits");
  CHECK(reason_of("cpprun1:a").starts_with("line 1 is not a cpprun secret"));
  CHECK(reason_of("cpprun1::" + digits).starts_with("line 1 has an invalid id"));
  CHECK(reason_of("cpprun1:a b:" + digits).starts_with("line 1 has an invalid id"));
  CHECK(reason_of("cpprun1:" + std::string(65, 'a') + ":" + digits)
            .starts_with("line 1 has an invalid id"));
  CHECK(reason_of("cpprun1:a:" + digits.substr(1)) ==
        "line 1 has an invalid key; expected 64 hexadecimal digits");
  CHECK(reason_of("cpprun1:a:" + digits + "0") ==
        "line 1 has an invalid key; expected 64 hexadecimal digits");
  CHECK(reason_of("cpprun1:a:g" + digits.substr(1)) ==
        "line 1 has an invalid key; expected 64 hexadecimal digits");
  CHECK(reason_of("cpprun1:a:" + std::string(64, '0')) == "line 1 has a key of one repeated byte");
  CHECK(reason_of(line + "\n" + line) == "line 2 repeats the id \"2026-11.a_b\"");
}

TEST_CASE("a file holds at most eight secrets") {
  std::string text;
  for (int n = 0; n < 8; ++n) text += "cpprun1:" + std::to_string(n) + ":" + digits + "\n";
  CHECK(reason_of(text) == "taken");
  CHECK(reason_of(text + line) == "more than 8 secrets");
}

}  // namespace secure_secret_test
