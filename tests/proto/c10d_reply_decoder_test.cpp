// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/codec.h"

#include <doctest/doctest.h>

#include "tests/proto/c10d_golden.h"

namespace c10d_reply_decoder_test {

using namespace cpprun::c10d;
using golden::bytes_of;

namespace {

constexpr Bytes two[] = {"1", "22"};

struct Sample {
  Reply reply;
  Expected expected;
};

std::vector<Sample> samples() {
  return {{Pong{7}, {ReplyKind::pong, 1}},           {Value{"abc"}, {ReplyKind::value, 1}},
          {Number{-5}, {ReplyKind::number, 1}},      {Checked{true}, {ReplyKind::checked, 1}},
          {Checked{false}, {ReplyKind::checked, 1}}, {Waited{}, {ReplyKind::waited, 1}},
          {Waited{true}, {ReplyKind::waited, 1}},    {Values{two}, {ReplyKind::values, 2}},
          {Popped{}, {ReplyKind::popped, 1}},        {Popped{3, "x"}, {ReplyKind::popped, 1}},
          {Keys{two}, {ReplyKind::keys, 1}}};
}

}  // namespace

TEST_CASE("encoded replies are decoded the same, cut at every byte") {
  for (const Sample& sample : samples()) {
    std::string bytes;
    encode(sample.reply, bytes);
    ReplyDecoder decoder;
    for (std::size_t end = 0; end < bytes.size(); ++end) {
      const DecodedReply part =
          decoder.decode(std::string_view(bytes).substr(0, end), sample.expected);
      REQUIRE(std::holds_alternative<NeedMoreReply>(part));
      CHECK(std::get<NeedMoreReply>(part).size > end);
      CHECK(std::get<NeedMoreReply>(part).size <= bytes.size());
    }
    const DecodedReply whole = decoder.decode(bytes, sample.expected);
    REQUIRE(std::holds_alternative<CompleteReply>(whole));
    CHECK(std::get<CompleteReply>(whole).reply == sample.reply);
    CHECK(std::get<CompleteReply>(whole).size == bytes.size());
  }
}

TEST_CASE("an unexpected reply of a server is detected") {
  ReplyDecoder decoder;
  CHECK(std::holds_alternative<MalformedReply>(
      decoder.decode(bytes_of("48"), {ReplyKind::waited, 1})));
  CHECK(std::holds_alternative<MalformedReply>(
      decoder.decode(bytes_of("0000000000000040"), {ReplyKind::value, 1})));
  CHECK(std::holds_alternative<MalformedReply>(decoder.decode(bytes_of("00"), {})));
}

TEST_CASE("every request has a kind of reply") {
  CHECK(expected_of(Set{"k", "v"}) == Expected{});
  CHECK(expected_of(MultiGet{two}) == Expected{ReplyKind::values, 2});
  CHECK(expected_of(Barrier{"k", 2}).kind == ReplyKind::waited);
  CHECK(expected_of(QueuePop{"k"}).kind == ReplyKind::popped);
}

}  // namespace c10d_reply_decoder_test
