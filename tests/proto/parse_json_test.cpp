// SPDX-License-Identifier: BSD-3-Clause
#include "proto/parse_json.h"

#include <doctest/doctest.h>

#include <string>

namespace parse_json_test {

using namespace cpprun;
using nlohmann::json;

namespace {

std::string nested(std::size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (std::size_t at = 0; at < depth; ++at) text += open;
  for (std::size_t at = 0; at < depth; ++at) text += close;
  return text;
}

}  // namespace

TEST_CASE("valid JSON is parsed, and anything else is discarded") {
  CHECK(parse_json(R"({"a":[1,"]}"]})")["a"][1] == "]}");
  CHECK(parse_json<nlohmann::ordered_json>(R"({"b":1,"a":2})").begin().key() == "b");
  for (const char* text : {"", "{", "]", "{\"a\":}", "\"", "nul", "{} {}"}) {
    CAPTURE(text);
    CHECK(parse_json(text).is_discarded());
  }
}

TEST_CASE("JSON may be nested up to the limit, and no deeper") {
  const auto most = bounds::json_depth_max;
  CHECK(parse_json(nested(most, "[", "]")).is_array());
  CHECK(parse_json(nested(most + 1, "[", "]")).is_discarded());
  CHECK(parse_json(R"({"a":)" + nested(most, "[", "]") + "}").is_discarded());
  CHECK(parse_json(nested(3, "[", "]"), 2).is_discarded());
  // A million would exhaust the stack of code that walks them.
  CHECK(parse_json(nested(1'000'000, "[", "]")).is_discarded());
  CHECK(parse_json(nested(1'000'000, "{\"a\":", "")).is_discarded());
  CHECK(parse_json(std::string(1'000'000, '[')).is_discarded());
}

TEST_CASE("brackets in strings do not count as nesting") {
  CHECK(json_depth(R"({"a":"[[[\"[["})") == 1);
  CHECK(json_depth(R"([[],{"b":[]}])") == 3);
  CHECK(json_depth("]]]][") == 1);
}

TEST_CASE("CBOR has the same limit") {
  const json small = {{"a", {1, 2, {{"b", json::binary({1, 2})}}}}};
  const auto bytes = json::to_cbor(small);
  CHECK(parse_cbor({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) == small);
  const char array_of_one = '\x81';
  CHECK(parse_cbor(std::string(bounds::json_depth_max, array_of_one) + std::string(1, '\0'))
            .is_array());
  CHECK(parse_cbor(std::string(bounds::json_depth_max + 1, array_of_one) + std::string(1, '\0'))
            .is_discarded());
  CHECK(parse_cbor(std::string(1'000'000, array_of_one)).is_discarded());
  CHECK(parse_cbor("").is_discarded());
}

}  // namespace parse_json_test
