// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/reply_decoder.h"

#include <fmt/format.h>

#include "proto/c10d/cursor.h"

namespace cpprun::c10d {
namespace {

DecodedReply reply_stopped(const Cursor& cursor) {
  if (!cursor.refusal().empty()) return MalformedReply{cursor.refusal()};
  return NeedMoreReply{cursor.needed()};
}

DecodedReply decode_value(Cursor cursor) {
  Value reply;
  if (!cursor.value(reply.value)) return reply_stopped(cursor);
  return CompleteReply{reply, cursor.at()};
}

DecodedReply decode_number(Cursor cursor) {
  Number reply;
  if (!cursor.integer(reply.number)) return reply_stopped(cursor);
  return CompleteReply{reply, cursor.at()};
}

DecodedReply decode_pong(Cursor cursor) {
  Pong reply;
  if (!cursor.integer(reply.nonce)) return reply_stopped(cursor);
  return CompleteReply{reply, cursor.at()};
}

DecodedReply decode_flag(Cursor cursor, ReplyKind kind) {
  std::uint8_t flag = 0;
  if (!cursor.integer(flag)) return reply_stopped(cursor);
  if (flag > 1) return MalformedReply{fmt::format("{} where 0 or 1 was expected", flag)};
  if (kind == ReplyKind::checked) return CompleteReply{Checked{flag == 0}, cursor.at()};
  return CompleteReply{Waited{flag == 1}, cursor.at()};
}

DecodedReply decode_popped(Cursor cursor) {
  Popped reply;
  if (!cursor.integer(reply.length_before)) return reply_stopped(cursor);
  if (reply.length_before > 0 && !cursor.value(reply.value)) return reply_stopped(cursor);
  return CompleteReply{reply, cursor.at()};
}

bool decode_texts(Cursor& cursor, std::uint64_t count, std::vector<Bytes>& texts) {
  texts.clear();
  for (; count > 0; --count) {
    Bytes text;
    if (!cursor.value(text)) return false;
    texts.push_back(text);
  }
  return true;
}

}  // namespace

Expected expected_of(const Request& request) {
  struct Visitor {
    Expected operator()(const Validate&) const { return {}; }
    Expected operator()(const Set&) const { return {}; }
    Expected operator()(const Append&) const { return {}; }
    Expected operator()(const MultiSet&) const { return {}; }
    Expected operator()(const QueuePush&) const { return {}; }
    Expected operator()(const Ping&) const { return {ReplyKind::pong, 1}; }
    Expected operator()(const CompareSet&) const { return {ReplyKind::value, 1}; }
    Expected operator()(const Get&) const { return {ReplyKind::value, 1}; }
    Expected operator()(const Add&) const { return {ReplyKind::number, 1}; }
    Expected operator()(const GetNumKeys&) const { return {ReplyKind::number, 1}; }
    Expected operator()(const DeleteKey&) const { return {ReplyKind::number, 1}; }
    Expected operator()(const QueueLen&) const { return {ReplyKind::number, 1}; }
    Expected operator()(const Check&) const { return {ReplyKind::checked, 1}; }
    Expected operator()(const Wait&) const { return {ReplyKind::waited, 1}; }
    Expected operator()(const CancelWait&) const { return {ReplyKind::waited, 1}; }
    Expected operator()(const Barrier&) const { return {ReplyKind::waited, 1}; }
    Expected operator()(const MultiGet& get) const { return {ReplyKind::values, get.keys.size()}; }
    Expected operator()(const QueuePop&) const { return {ReplyKind::popped, 1}; }
    Expected operator()(const ListKeys&) const { return {ReplyKind::keys, 1}; }
    // A client of dialect D, the only one there is here, cannot watch.
    Expected operator()(const WatchKey&) const { return {}; }
  };
  return std::visit(Visitor{}, request);
}

DecodedReply ReplyDecoder::decode(std::string_view bytes, const Expected& expected) {
  Cursor cursor(bytes, 0, bounds::store_reply_bytes_max);
  switch (expected.kind) {
    case ReplyKind::none:
      return MalformedReply{"bytes where no reply was expected"};
    case ReplyKind::pong:
      return decode_pong(cursor);
    case ReplyKind::value:
      return decode_value(cursor);
    case ReplyKind::number:
      return decode_number(cursor);
    case ReplyKind::checked:
    case ReplyKind::waited:
      return decode_flag(cursor, expected.kind);
    case ReplyKind::popped:
      return decode_popped(cursor);
    case ReplyKind::values:
      if (!decode_texts(cursor, expected.count, texts_)) return reply_stopped(cursor);
      return CompleteReply{Values{texts_}, cursor.at()};
    case ReplyKind::keys: {
      std::uint64_t count = 0;
      if (!cursor.integer(count) || !decode_texts(cursor, count, texts_))
        return reply_stopped(cursor);
      return CompleteReply{Keys{texts_}, cursor.at()};
    }
  }
  return MalformedReply{"an unknown kind of reply"};
}

}  // namespace cpprun::c10d
