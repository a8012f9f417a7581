// SPDX-License-Identifier: BSD-3-Clause
#include "proto/json_text.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/fields_json.h"
#include "proto/parse_json.h"

namespace json_text_test {

using namespace cpprun;

namespace {

constexpr std::size_t depth_max = 4;

bool is_json(std::string_view text) {
  JsonText json(text, depth_max);
  try {
    json.skip();
    json.end();
    return true;
  } catch (const JsonText::Invalid&) {
    return false;
  }
}

std::optional<std::string> text_in(std::string_view json) {
  try {
    return std::string(JsonText(json, depth_max).string());
  } catch (const JsonText::Invalid&) {
    return std::nullopt;
  }
}

struct Disk {
  std::string path = {};
  std::uint64_t size = 0;
  std::optional<bool> is_slow = {};
  friend bool operator==(const Disk&, const Disk&) = default;
};

struct DiskFormat {
  void fields(auto& f, Of<Disk> auto& disk) const {
    f("path", disk.path), f.where_known("size", disk.size), f("slow", disk.is_slow);
  }
  static void read(const char*, JsonText& json, std::string& text) { text = json.string(); }
  static void read(const char*, JsonText& json, std::uint64_t& number) { number = json.number(); }
};

std::string refusal_of(std::string_view text) {
  try {
    static_cast<void>(value_of_text<Disk>(DiskFormat{}, JsonText(text, depth_max)));
    return {};
  } catch (const JsonText::Invalid& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("JSON read from its text is accepted and rejected as by the parser") {
  for (const char* text : {
           R"({})",
           R"([])",
           R"( [ 1 , -2.5e+3 , 0 , true , false , null , "" ] )",
           R"({"a":{"b":[{"c":1}]}})",
           "\t\r\n \"\xC3\xA9\xF0\x9F\x98\x80\"",
           R"("\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00")",
           R"({"a":1,"a":2})",
           "",
           " ",
           "nul",
           "truefalse",
           "{",
           "[1,]",
           "[,1]",
           "[1 2]",
           "[1}",
           R"({"a"})",
           R"({"a":})",
           R"({"a":1,})",
           R"({a:1})",
           "[] []",
           "01",
           "-",
           "1.",
           "1.e3",
           "1e",
           "+1",
           "\"\x01\"",
           "\"\xFF\"",
           "\"\xED\xA0\x80\"",
           "\"open",
           "\"open\\",
           "\"open\\\"",
           R"("\x")",
           R"("\u12g4")",
           R"("\u-123")",
           R"("\u12)",
           R"("\ud83d")",
           R"("\ud83dx")",
           R"("\ud83dA")",
           R"("\ude00")",
           "[[[[1]]]]",
           "[[[[[1]]]]]",
           R"([[[{"a":[]}]]])",
       }) {
    CAPTURE(text);
    CHECK(is_json(text) == !parse_json(text, depth_max).is_discarded());
  }
}

TEST_CASE("a string is read with its escapes") {
  CHECK(text_in(R"(  "train.py")") == "train.py");
  CHECK(text_in(R"("a\"\\\/\b\f\n\r\tz")") == "a\"\\/\b\f\n\r\tz");
  CHECK(text_in(R"("\u0041\u00E9\u20ac\uD83D\uDE00")") == "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK_FALSE(text_in("7"));
}

TEST_CASE("a whole number is read exactly, and any other is rejected") {
  CHECK(JsonText(" 0", 1).number() == 0);
  CHECK(JsonText("18446744073709551615,", 1).number() == 18446744073709551615U);
  for (const char* text : {"18446744073709551616", "-1", "1.0", "1e3", "007", "\"1\"", ""}) {
    CAPTURE(text);
    CHECK_THROWS_AS(JsonText(text, 1).number(), JsonText::Invalid);
  }
}

TEST_CASE("a value is read from text by the list of its fields, in any order") {
  const auto read = [](std::string_view text) {
    return value_of_text<Disk>(DiskFormat{}, JsonText(text, depth_max));
  };
  CHECK(read(R"({"path":"/a","size":3,"slow":true})") == Disk{"/a", 3, true});
  CHECK(read(R"({"new":[1,{}],"slow":null,"path":"\/a"})") == Disk{"/a", 0, std::nullopt});
}

TEST_CASE("what is missing or wrong in the text of a value is named") {
  CHECK(refusal_of(R"({"size":3,"slow":null})") == "no \"path\"");
  CHECK(refusal_of(R"({"path":"/a"})") == "no \"slow\"");
  CHECK(refusal_of(R"({"path":3,"slow":null})") == "not text in the JSON");
  CHECK(refusal_of(R"({"path":"/a","slow":0})") == "not a truth value in the JSON");
  CHECK(refusal_of("[]") == "not an object in the JSON");
  CHECK(refusal_of(R"({"path":"/a")") == "the JSON is incomplete");
  CHECK(refusal_of(R"({"path":"/a","slow":null} 1)") == "not the end in the JSON");
}

}  // namespace json_text_test
