// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/safetensors.h"

#include <doctest/doctest.h>

#include "worker/torch/files/bounds.h"

namespace safetensors_test {

using namespace cpprun;

namespace {

SafetensorsHead two_tensors() {
  return {.tensors = {{.name = "weight", .dtype = "F32", .shape = {2, 3}, .begin = 0, .end = 24},
                      {.name = "steps", .dtype = "I64", .shape = {}, .begin = 24, .end = 32}},
          .metadata = {{"epoch", "3"}}};
}

std::string reason_of(std::string_view json, std::uint64_t data_bytes) {
  const auto parsed = parse_safetensors(json, data_bytes, "x");
  return parsed ? "" : parsed.error().reason;
}

constexpr const char* not_whole = "\"x\": not a complete safetensors file: ";

}  // namespace

TEST_CASE("a header is read as it was written") {
  const std::string text = to_text(two_tensors());
  const auto length = json_bytes_of(text.substr(0, 8), text.size() + 32, "x");
  REQUIRE(length);
  CHECK(*length + 8 == text.size());
  CHECK(text.size() % 8 == 0);
  const auto parsed = parse_safetensors(std::string_view(text).substr(8), 32, "x");
  REQUIRE(parsed);
  CHECK(*parsed == two_tensors());
}

TEST_CASE("an empty tensor may be anywhere in the data") {
  SafetensorsHead head = two_tensors();
  head.tensors.insert(head.tensors.begin() + 1,
                      {.name = "none", .dtype = "F32", .shape = {0, 7}, .begin = 24, .end = 24});
  const auto parsed = parse_safetensors(to_text(head).substr(8), 32, "x");
  REQUIRE(parsed);
  CHECK(*parsed == head);
}

TEST_CASE("an impossible length field is rejected") {
  CHECK(json_bytes_of("abc", 3, "x").error().reason ==
        "\"x\": not a safetensors file: 3 bytes, a header has at least 8");
  CHECK(json_bytes_of(std::string(8, '\x7f'), 100, "x").error().reason ==
        "\"x\": not a safetensors file: header length 9187201950435737471 exceeds the limit of "
        "12582912 bytes");
  CHECK(json_bytes_of(std::string("\x40\0\0\0\0\0\0\0", 8), 20, "x").error().reason ==
        "\"x\": truncated: the header has 64 bytes, but the file ends at offset 20");
}

TEST_CASE("a header that contradicts itself or the file is rejected with the entry") {
  const auto why = [](const std::string& text) { return not_whole + text; };
  CHECK(reason_of("[1]", 0) == why("the header at offset 8 is not a JSON object"));
  CHECK(reason_of(R"({"__metadata__":{"a":1}})", 0) ==
        why("__metadata__ is not an object of strings"));
  CHECK(reason_of(R"({"a":{"dtype":"F3","shape":[],"data_offsets":[0,4]}})", 4) ==
        why("tensor \"a\" has the unknown type F3"));
  CHECK(reason_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4) ==
        why("tensor \"a\" has no shape of whole numbers"));
  CHECK(reason_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4) ==
        why("tensor \"a\" has no pair of data_offsets"));
  CHECK(reason_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4) ==
        why("tensor \"a\" has data_offsets [0, 4] that do not match its shape"));
  CHECK(reason_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6) ==
        why("tensor \"a\" begins at byte 2 of the data, expected 0"));
  CHECK(reason_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3) ==
        why("the tensors need 4 bytes of data, the file has 3"));
}

TEST_CASE("a shape beyond all memory does not wrap around") {
  CHECK(reason_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                  0) == std::string(not_whole) +
                            "tensor \"a\" has data_offsets [0, 0] that do not match its shape");
}

TEST_CASE("the checksum excludes its own bytes") {
  SafetensorsHead head = two_tensors();
  head.metadata[std::string(checksum_key)] = "00000000";
  const std::string blank = to_text(head);
  std::string text = blank;
  set_checksum(text, 0xdeadbeef);
  CHECK(text != blank);
  CHECK(take_checksum(text) == 0xdeadbeef);
  CHECK(text == blank);
}

TEST_CASE("a header without a checksum has none") {
  std::string text = to_text(two_tensors());
  const std::string before = text;
  set_checksum(text, 1);
  CHECK_FALSE(take_checksum(text));
  CHECK(text == before);
}

TEST_CASE("an empty shape that overflows is rejected before LibTorch gets it") {
  CHECK(reason_of(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})",
                  0) == std::string(not_whole) +
                            "tensor \"a\" has data_offsets [0, 0] that do not match its shape");
}

TEST_CASE("duplicate entries are rejected") {
  const auto why = [](const std::string& text) { return not_whole + text; };
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  CHECK(reason_of(R"({"a":)" + entry + R"(,"a":)" + entry + "}", 0) ==
        why("tensor \"a\" occurs twice"));
  CHECK(reason_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})", 0) ==
        why("tensor \"a\" has more than one dtype"));
  CHECK(reason_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0) ==
        why("metadata entry \"a\" occurs twice"));
  CHECK(reason_of(R"({"__metadata__":{},"__metadata__":{}})", 0) ==
        why("__metadata__ occurs twice"));
}

TEST_CASE("values of the wrong kind are rejected wherever they are") {
  const auto why = [](const std::string& text) { return not_whole + text; };
  CHECK(reason_of("5", 0) == why("the header at offset 8 is not a JSON object"));
  CHECK(reason_of(R"({"a":5})", 0) == why("tensor \"a\" is not an object"));
  CHECK(reason_of(R"({"a":{"dtype":{},"shape":[],"data_offsets":[0,0]}})", 0) ==
        why("tensor \"a\" has no dtype"));
  CHECK(reason_of(R"({"a":{"dtype":"U8","shape":{},"data_offsets":[0,0]}})", 0) ==
        why("tensor \"a\" has no shape of whole numbers"));
  CHECK(reason_of(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1) ==
        why("tensor \"a\" has no shape of whole numbers"));
  CHECK(reason_of(R"({"__metadata__":[]})", 0) == why("__metadata__ is not an object of strings"));
  CHECK(reason_of(R"({"a":{"dtype":"U8","shape":[1],"more":[{"b":null}],"data_offsets":[0,1]}})",
                  1) == "");
}

TEST_CASE("a hostile header costs little memory and time") {
  const auto filled = [](const std::string& beginning, const std::string& item) {
    std::string text = beginning;
    while (text.size() < bounds::safetensors_head_bytes_max - 64) text += item;
    return text;
  };
  // The list grows no longer than a tensor may have dimensions, the texts are counted, and unknown
  // keys are skipped.
  CHECK(
      reason_of(filled(R"({"a":{"dtype":"U8","shape":[1)", ",1"), 1).find("too many dimensions") !=
      std::string::npos);
  std::string texts = R"({"__metadata__":{"a":"")";
  for (int i = 0; i < 70'000; ++i) texts += ",\"" + std::to_string(i) + "\":\"\"";
  CHECK(reason_of(texts + "}}", 0).find("too many metadata entries") != std::string::npos);
  CHECK(reason_of(filled(R"({"a":{"x":)", "["), 0).find("not a JSON object") != std::string::npos);
}

TEST_CASE("types of eight bits have a size") {
  for (const char* const type : {"F8_E4M3", "F8_E5M2", "F8_E8M0"}) CHECK(element_bytes(type) == 1);
}

}  // namespace safetensors_test
