// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/codec.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "proto/c10d/bounds.h"
#include "tests/proto/c10d_golden.h"

namespace c10d_decoder_test {

using namespace cpprun;
using namespace cpprun::c10d;
using golden::bytes_of;

namespace {

// Decodes one complete request, or fails the test.
Complete decode_whole(Decoder& decoder, std::string_view bytes, Conversation& conversation) {
  Progress progress;
  Decoded decoded = decoder.decode(bytes, conversation, progress);
  REQUIRE(std::holds_alternative<Complete>(decoded));
  return std::get<Complete>(decoded);
}

std::string reason_of(std::string_view bytes, Conversation conversation = {}) {
  Decoder decoder;
  Progress progress;
  const Decoded decoded = decoder.decode(bytes, conversation, progress);
  REQUIRE(std::holds_alternative<Malformed>(decoded));
  return std::get<Malformed>(decoded).reason;
}

constexpr Conversation in_d{Dialect::d, true};

// As a server treats pieces: tries again only when enough has arrived.
Request decode_in_pieces(Decoder& decoder, std::string_view bytes, std::size_t split,
                         Conversation& conversation) {
  Progress progress;
  std::size_t needed = 0;
  for (const std::size_t end : {split, bytes.size()}) {
    if (end < needed) continue;
    Decoded decoded = decoder.decode(bytes.substr(0, end), conversation, progress);
    if (const auto* complete = std::get_if<Complete>(&decoded)) {
      REQUIRE(end == bytes.size());
      REQUIRE(complete->size == bytes.size());
      return complete->request;
    }
    if (const auto* more = std::get_if<NeedMore>(&decoded)) {
      REQUIRE(more->size > end);
      REQUIRE(more->size <= bytes.size());
      needed = more->size;
    } else {
      REQUIRE(std::holds_alternative<Ambiguous>(decoded));
    }
  }
  FAIL("never complete");
  return {};
}

}  // namespace

TEST_CASE("every captured request of every dialect is decoded") {
  for (const golden::Exchange& exchange : golden::exchanges()) {
    CAPTURE(exchange.name);
    Decoder decoder;
    Conversation conversation{exchange.given, false};
    for (const golden::Step& step : exchange.steps) {
      CAPTURE(step.sent);
      const std::string bytes = bytes_of(step.sent);
      if (bytes[0] == 8 && exchange.given == Dialect::undecided) continue;  // tested below
      const Complete complete = decode_whole(decoder, bytes, conversation);
      CHECK(complete.request == step.meant);
      CHECK(complete.size == bytes.size());
    }
    CHECK(conversation.dialect == exchange.dialect);
  }
}

TEST_CASE("every captured request may be cut at every byte") {
  for (const golden::Exchange& exchange : golden::exchanges()) {
    CAPTURE(exchange.name);
    Conversation conversation{exchange.given, false};
    for (const golden::Step& step : exchange.steps) {
      const std::string bytes = bytes_of(step.sent);
      Conversation after = conversation;
      for (std::size_t split = 1; split < bytes.size(); ++split) {
        CAPTURE(step.sent);
        CAPTURE(split);
        Decoder decoder;
        after = conversation;
        CHECK(decode_in_pieces(decoder, bytes, split, after) == step.meant);
      }
      if (bytes.size() == 1) {
        Decoder decoder;
        decode_whole(decoder, bytes, after);
      }
      conversation = after;
    }
  }
}

TEST_CASE("a request that arrives byte by byte is decoded only when a field is complete") {
  std::string bytes;
  std::vector<KeyValue> entries(1000, KeyValue{"key", "value"});
  REQUIRE(encode(MultiSet{entries}, Dialect::d, bytes));
  Decoder decoder;
  Conversation conversation = in_d;
  Progress progress;
  std::size_t needed = 0;
  std::size_t looks = 0;
  std::size_t fields_looked_at = 0;
  for (std::size_t end = 1; end <= bytes.size(); ++end) {
    if (end < needed) continue;
    const std::uint64_t left_before = progress.fields_left;
    const Decoded decoded =
        decoder.decode(std::string_view(bytes).substr(0, end), conversation, progress);
    ++looks;
    if (left_before > 0) fields_looked_at += left_before - progress.fields_left;
    if (const auto* more = std::get_if<NeedMore>(&decoded)) needed = more->size;
    if (end == bytes.size()) CHECK(std::holds_alternative<Complete>(decoded));
  }
  CHECK(looks <= 2 * 2 * entries.size() + 3);
  CHECK(fields_looked_at <= 2 * entries.size());
}

TEST_CASE("several requests in one piece are decoded one after the other") {
  const std::string bytes =
      bytes_of("00 cef7853c 0d 07000000 01 01..00 'k' 01..00 'v' 03 01..00 'k'");
  Decoder decoder;
  Conversation conversation;
  std::string_view rest = bytes;
  Complete complete = decode_whole(decoder, rest, conversation);
  CHECK(complete.request == Request{Validate{}});
  rest.remove_prefix(complete.size);
  complete = decode_whole(decoder, rest, conversation);
  CHECK(complete.request == Request{Ping{7}});
  rest.remove_prefix(complete.size);
  complete = decode_whole(decoder, rest, conversation);
  CHECK(complete.request == Request{Set{"k", "v"}});
  rest.remove_prefix(complete.size);
  complete = decode_whole(decoder, rest, conversation);
  CHECK(complete.request == Request{Get{"k"}});
  CHECK(complete.size == rest.size());
}

TEST_CASE("opcode 8 with bytes after its key is an APPEND of dialect B") {
  Decoder decoder;
  Conversation conversation{Dialect::old, true};
  const std::string bytes = bytes_of("08 02..00 '/k' 02..00 'xy'");
  CHECK(decode_whole(decoder, bytes, conversation).request == Request{Append{"/k", "xy"}});
  CHECK(conversation.dialect == Dialect::b);
}

TEST_CASE("opcode 8 with nothing after its key is a DELETE_KEY of dialect A after a timeout") {
  Decoder decoder;
  Conversation conversation{Dialect::old, true};
  Progress progress;
  const std::string bytes = bytes_of("08 02..00 '/k'");
  CHECK(std::holds_alternative<Ambiguous>(decoder.decode(bytes, conversation, progress)));
  CHECK(conversation.dialect == Dialect::old);
  const Decoded decoded = decoder.decode(bytes, conversation, progress, true);
  REQUIRE(std::holds_alternative<Complete>(decoded));
  CHECK(std::get<Complete>(decoded).request == Request{DeleteKey{"/k"}});
  CHECK(conversation.dialect == Dialect::a);
  // From now on the dialect is known.
  CHECK(decode_whole(decoder, bytes, conversation).request == Request{DeleteKey{"/k"}});
}

TEST_CASE("opcode 7 deletes a key, and after another request it identifies dialect B") {
  Decoder decoder;
  Conversation first;
  const std::string bytes = bytes_of("07 02..00 '/k'");
  CHECK(decode_whole(decoder, bytes, first).request == Request{DeleteKey{"/k"}});
  CHECK(first.dialect == Dialect::old);
  Conversation later{Dialect::old, true};
  CHECK(decode_whole(decoder, bytes, later).request == Request{DeleteKey{"/k"}});
  CHECK(later.dialect == Dialect::b);
}

TEST_CASE("a first byte of 0 is D's handshake only with its complete magic number") {
  Decoder decoder;
  Progress progress;
  Conversation conversation;
  CHECK(std::holds_alternative<NeedMore>(
      decoder.decode(bytes_of("00 cef785"), conversation, progress)));
  CHECK(conversation.dialect == Dialect::undecided);
  CHECK(
      std::holds_alternative<NeedMore>(decoder.decode(bytes_of("00 02"), conversation, progress)));
  CHECK(conversation.dialect == Dialect::old);
}

TEST_CASE("a handshake may be repeated, but not with another magic number") {
  Decoder decoder;
  Conversation conversation = in_d;
  CHECK(decode_whole(decoder, bytes_of("00 cef7853c"), conversation).request ==
        Request{Validate{}});
  CHECK(reason_of(bytes_of("00 11223344"), in_d) == "VALIDATE with a wrong magic number");
}

TEST_CASE("an invalid request is rejected with a reason") {
  CHECK(reason_of("\x47", in_d) == "unknown opcode 71");
  CHECK(reason_of("\x13", in_d) == "unknown opcode 19");
  CHECK(reason_of("\x0c", {Dialect::b, true}) == "unknown opcode 12");
  CHECK(reason_of("\x09", {Dialect::a, true}) == "unknown opcode 9");
}

TEST_CASE("an announced length beyond its limit is rejected before its bytes arrive") {
  // 2^62, as in a port scanner's bytes.
  CHECK(reason_of(bytes_of("03 0000000000000040"), in_d) ==
        "a key of 4611686018427387904 bytes, more than 8192");
  CHECK(reason_of(bytes_of("01 01..00 'k' 0000000000000040"), in_d) ==
        "a value of 4611686018427387904 bytes, more than 268435456");
  CHECK(reason_of(bytes_of("06 0000000000000040"), in_d) ==
        "4611686018427387904 keys in one request, more than 131072");
  CHECK(reason_of(bytes_of("0b ffffffffffffffff"), in_d) ==
        "18446744073709551615 keys in one request, more than 131072");
}

TEST_CASE("lengths at the limit are accepted") {
  std::string bytes;
  const std::string key(bounds::store_key_bytes_max, 'k');
  const std::string value(9 * 1024 * 1024, 'v');
  REQUIRE(encode(Set{key, value}, Dialect::d, bytes));
  Decoder decoder;
  Conversation conversation = in_d;
  CHECK(decode_whole(decoder, bytes, conversation).request == Request{Set{key, value}});
  bytes.clear();
  const std::vector<Bytes> keys(bounds::store_keys_per_request_max, "k");
  REQUIRE(encode(Wait{keys}, Dialect::d, bytes));
  CHECK(decode_whole(decoder, bytes, conversation).request == Request{Wait{keys}});
}

TEST_CASE("requests without a key are complete") {
  Decoder decoder;
  Conversation conversation = in_d;
  CHECK(decode_whole(decoder, bytes_of("0a 00..00"), conversation).request == Request{MultiGet{}});
  CHECK(decode_whole(decoder, bytes_of("06 00..00"), conversation).request == Request{Wait{}});
  CHECK(decode_whole(decoder, bytes_of("0b 00..00"), conversation).request == Request{MultiSet{}});
}

TEST_CASE("random bytes never make the decoder consume more than there are") {
  std::mt19937 random(20250101);
  Decoder decoder;
  for (int round = 0; round < 200'000; ++round) {
    std::string bytes(1 + random() % 48, '\0');
    // Small numbers, so that opcodes and lengths are often plausible.
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? random() % 20 : 0);
    Conversation conversation{static_cast<Dialect>(random() % 5), random() % 2 == 0};
    std::string_view rest = bytes;
    while (!rest.empty()) {
      Progress progress;
      const Decoded decoded = decoder.decode(rest, conversation, progress, random() % 2 == 0);
      if (const auto* more = std::get_if<NeedMore>(&decoded)) REQUIRE(more->size > rest.size());
      if (const auto* bad = std::get_if<Malformed>(&decoded)) REQUIRE(!bad->reason.empty());
      const auto* complete = std::get_if<Complete>(&decoded);
      if (complete == nullptr) break;
      REQUIRE(complete->size <= rest.size());
      REQUIRE(complete->size > 0);
      rest.remove_prefix(complete->size);
    }
  }
}

}  // namespace c10d_decoder_test
