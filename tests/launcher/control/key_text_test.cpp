// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <doctest/doctest.h>

#include "rendezvous/io/secret_file.h"

namespace key_text_test {

using namespace cpprun;

TEST_CASE("a secret is named after the day and six unambiguous letters") {
  const WallTime day(std::chrono::seconds(1795392000));  // 2026-11-23T00:00:00Z
  CHECK(secret_id(day, {0, 1, 31, 32, 63, 255}) == "20261123-ab9a99");
  CHECK(secret_id(day - std::chrono::seconds(1), {11, 12, 13, 22, 23, 24}) == "20261122-mnpyz2");
  CHECK(is_secret_id(secret_id(day, {})));
}

TEST_CASE("a secret file is read as it was written") {
  const std::string digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
  const std::string text = "cpprun1:new:" + digits + "\ncpprun1:old:" + digits + "\n";
  const auto secrets = parse_secrets(text, make_key_memory);
  REQUIRE(secrets);
  CHECK(secrets_text(*secrets) == text);
}

TEST_CASE("a new key is printed with the next step, and never with its value") {
  CHECK(made_text("i", "/p/s").starts_with("created secret i in /p/s\n"));
  CHECK(made_text("i", "/p\n/s").starts_with("created secret i in /p?/s\n"));
  CHECK(made_text("i", "/p/s").find("A running cpprund reads it on SIGHUP") != std::string::npos);
  const auto added = added_text("new", "/p/s", "old");
  CHECK(added.starts_with("created secret new in /p/s, before old\n"));
  CHECK(added.find("remove\nthe line of the old secret everywhere") != std::string::npos);
}

}  // namespace key_text_test
