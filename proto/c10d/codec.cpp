// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/codec.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "proto/c10d/bounds.h"
#include "proto/state_machine.h"

namespace cpprun::c10d {

void Cursor::refuse_count(std::uint64_t count) {
  refusal_ = fmt::format("{} keys in one request, more than {}", count,
                         bounds::store_keys_per_request_max);
}

void Cursor::refuse(const char* what, std::uint64_t length, std::uint64_t limit) {
  if (length > limit) {
    refusal_ = fmt::format("a {} of {} bytes, more than {}", what, length, limit);
  } else {
    refusal_ = fmt::format("more than {} bytes in one piece", bytes_max_);
  }
}

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

namespace {

constexpr std::string_view validate_bytes{"\x00\xce\xf7\x85\x3c", 5};

Decoded stopped(const Cursor& cursor) {
  if (!cursor.refusal().empty()) return Malformed{cursor.refusal()};
  return NeedMore{cursor.needed()};
}

Decoded complete(const Cursor& cursor, Request request) {
  return Complete{std::move(request), cursor.at()};
}

// Only dialect D announces itself; the older two start with any request. False: undecided, since it
// takes five bytes to tell.
bool settle_dialect(std::string_view bytes, Conversation& conversation) {
  const auto opcode = static_cast<std::uint8_t>(bytes[0]);
  if (opcode != 0) {
    conversation.dialect = Dialect::old;
    return true;
  }
  // An old SET with a key length equal to the magic would have a key of more than a gigabyte.
  const std::string_view start = bytes.substr(0, validate_bytes.size());
  if (start == validate_bytes) {
    conversation.dialect = Dialect::d;
  } else if (validate_bytes.starts_with(start)) {
    return false;
  } else {
    conversation.dialect = Dialect::old;
  }
  return true;
}

// Resolves an opcode that differs between dialects A and B, if that can be decided at once.
Operation settle_operation(Operation operation, Conversation& conversation) {
  if (conversation.dialect != Dialect::old) return operation;
  switch (operation) {
    case Operation::multi_get:
    case Operation::multi_set:
    case Operation::cancel_wait:
      conversation.dialect = Dialect::b;
      return operation;
    case Operation::ambiguous_7:
      // A sends WATCH_KEY only on a connection that carries nothing else. As the first request
      // DELETE_KEY is still the better guess: no Python program can watch.
      if (conversation.has_spoken) conversation.dialect = Dialect::b;
      return Operation::delete_key;
    default:
      return operation;
  }
}

// Checks the fields of a request with many keys, each field once, however fragmented it arrives.
// True when the request is complete.
bool look_through(Cursor& cursor, Progress& progress, std::size_t fields_per_entry) {
  if (progress.checked == 0) {
    std::uint64_t count = 0;
    if (!cursor.count(count)) return false;
    progress = {cursor.at(), count * fields_per_entry};
  }
  while (progress.fields_left > 0) {
    Bytes field;
    const bool is_value = fields_per_entry == 2 && progress.fields_left % 2 == 1;
    if (!(is_value ? cursor.value(field) : cursor.key(field))) return false;
    progress.checked = cursor.at();
    --progress.fields_left;
  }
  return true;
}

template <class KeysRequest>
Decoded decode_keys(std::string_view bytes, Progress& progress, std::vector<Bytes>& keys) {
  Cursor ahead(bytes, progress.checked == 0 ? 1 : progress.checked);
  if (!look_through(ahead, progress, 1)) return stopped(ahead);
  Cursor cursor(bytes, 1);
  std::uint64_t count = 0;
  (void)cursor.integer(count);  // completely checked above
  keys.resize(count);
  for (Bytes& key : keys) (void)cursor.key(key);
  return complete(cursor, KeysRequest{keys});
}

Decoded decode_entries(std::string_view bytes, Progress& progress, std::vector<KeyValue>& entries) {
  Cursor ahead(bytes, progress.checked == 0 ? 1 : progress.checked);
  if (!look_through(ahead, progress, 2)) return stopped(ahead);
  Cursor cursor(bytes, 1);
  std::uint64_t count = 0;
  (void)cursor.integer(count);  // completely checked above
  entries.resize(count);
  for (KeyValue& entry : entries) {
    (void)cursor.key(entry.key);
    (void)cursor.value(entry.value);
  }
  return complete(cursor, MultiSet{entries});
}

template <class KeyRequest>
Decoded decode_key(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  KeyRequest request;
  if (!cursor.key(request.key)) return stopped(cursor);
  return complete(cursor, request);
}

template <class KeyValueRequest>
Decoded decode_key_value(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  KeyValueRequest request;
  if (!cursor.key(request.key) || !cursor.value(request.value)) return stopped(cursor);
  return complete(cursor, request);
}

Decoded decode_compare_set(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  CompareSet request;
  if (!cursor.key(request.key) || !cursor.value(request.expected) ||
      !cursor.value(request.desired)) {
    return stopped(cursor);
  }
  return complete(cursor, request);
}

Decoded decode_add(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  Add request;
  if (!cursor.key(request.key) || !cursor.integer(request.delta)) return stopped(cursor);
  return complete(cursor, request);
}

Decoded decode_barrier(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  Barrier request;
  if (!cursor.key(request.key) || !cursor.integer(request.world_size)) return stopped(cursor);
  return complete(cursor, request);
}

Decoded decode_validate(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  std::uint32_t magic = 0;
  if (!cursor.integer(magic)) return stopped(cursor);
  if (magic != validate_magic) return Malformed{"VALIDATE with a wrong magic number"};
  return complete(cursor, Validate{});
}

Decoded decode_ping(std::string_view bytes) {
  Cursor cursor(bytes, 1);
  Ping request;
  if (!cursor.integer(request.nonce)) return stopped(cursor);
  return complete(cursor, request);
}

// B sends the key and the value of an APPEND together; A sends nothing after the key.
Decoded decode_ambiguous(std::string_view bytes, Conversation& conversation, bool grace_over) {
  Cursor cursor(bytes, 1);
  Bytes key;
  if (!cursor.key(key)) return stopped(cursor);
  if (bytes.size() > cursor.at()) {
    conversation.dialect = Dialect::b;
    return decode_key_value<Append>(bytes);
  }
  if (!grace_over) return Ambiguous{};
  conversation.dialect = Dialect::a;
  return complete(cursor, DeleteKey{key});
}

}  // namespace

Decoded Decoder::decode(std::string_view bytes, Conversation& conversation, Progress& progress,
                        bool grace_over) {
  if (bytes.empty()) return NeedMore{1};
  if (conversation.dialect == Dialect::undecided && !settle_dialect(bytes, conversation)) {
    return NeedMore{validate_bytes.size()};
  }
  const auto opcode = static_cast<std::uint8_t>(bytes[0]);
  const Operation operation =
      settle_operation(operation_of(conversation.dialect, opcode), conversation);
  Decoded decoded = [&]() -> Decoded {
    using enum Operation;
    switch (operation) {
      case validate:
        return decode_validate(bytes);
      case ping:
        return decode_ping(bytes);
      case set:
        return decode_key_value<Set>(bytes);
      case compare_set:
        return decode_compare_set(bytes);
      case get:
        return decode_key<Get>(bytes);
      case add:
        return decode_add(bytes);
      case check:
        return decode_keys<Check>(bytes, progress, keys_);
      case wait:
        return decode_keys<Wait>(bytes, progress, keys_);
      case cancel_wait:
        return Complete{CancelWait{}, 1};
      case get_num_keys:
        return Complete{GetNumKeys{}, 1};
      case ambiguous_7:
      case delete_key:
        return decode_key<DeleteKey>(bytes);
      case append:
        return decode_key_value<Append>(bytes);
      case multi_get:
        return decode_keys<MultiGet>(bytes, progress, keys_);
      case multi_set:
        return decode_entries(bytes, progress, entries_);
      case queue_push:
        return decode_key_value<QueuePush>(bytes);
      case queue_pop:
        return decode_key<QueuePop>(bytes);
      case queue_len:
        return decode_key<QueueLen>(bytes);
      case list_keys:
        return Complete{ListKeys{}, 1};
      case barrier:
        return decode_barrier(bytes);
      case watch_key:
        return decode_key<WatchKey>(bytes);
      case ambiguous_8:
        return decode_ambiguous(bytes, conversation, grace_over);
      case unknown:
        return Malformed{fmt::format("unknown opcode {}", opcode)};
    }
    return Malformed{fmt::format("unknown opcode {}", opcode)};
  }();
  if (std::holds_alternative<Complete>(decoded)) {
    conversation.has_spoken = true;
    progress = {};
  }
  return decoded;
}

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
    // Clients here speak dialect D only, which cannot watch.
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

namespace {

constexpr std::uint8_t watch_registered = 3;

template <class Integer>
void put(Integer integer, std::string& out) {
  std::array<char, sizeof integer> raw;
  std::memcpy(raw.data(), &integer, sizeof integer);
  out.append(raw.data(), raw.size());
}

void put_byte(std::uint8_t byte, std::string& out) {
  out.push_back(static_cast<char>(byte));
}

void put_text(Bytes text, std::string& out) {
  put(std::uint64_t{text.size()}, out);
  out.append(text);
}

void put_texts(std::span<const Bytes> texts, std::string& out) {
  for (const Bytes text : texts) put_text(text, out);
}

void put_keys(std::span<const Bytes> keys, std::string& out) {
  put(std::uint64_t{keys.size()}, out);
  put_texts(keys, out);
}

std::uint64_t text_size(Bytes text) {
  return sizeof(std::uint64_t) + text.size();
}

std::uint64_t texts_size(std::span<const Bytes> texts) {
  std::uint64_t size = 0;
  for (const Bytes text : texts) size += text_size(text);
  return size;
}

// The fields of a request, without its opcode.
struct PutFields {
  std::string& out;
  void operator()(const Validate&) const { put(validate_magic, out); }
  void operator()(const Ping& ping) const { put(ping.nonce, out); }
  void operator()(const CompareSet& request) const {
    put_text(request.key, out);
    put_text(request.expected, out);
    put_text(request.desired, out);
  }
  void operator()(const Add& request) const {
    put_text(request.key, out);
    put(request.delta, out);
  }
  void operator()(const Barrier& request) const {
    put_text(request.key, out);
    put(request.world_size, out);
  }
  void operator()(const MultiSet& request) const {
    put(std::uint64_t{request.entries.size()}, out);
    for (const KeyValue& entry : request.entries) {
      put_text(entry.key, out);
      put_text(entry.value, out);
    }
  }
  void operator()(const Check& request) const { put_keys(request.keys, out); }
  void operator()(const Wait& request) const { put_keys(request.keys, out); }
  void operator()(const MultiGet& request) const { put_keys(request.keys, out); }
  void operator()(const Set& request) const { put_pair(request.key, request.value); }
  void operator()(const Append& request) const { put_pair(request.key, request.value); }
  void operator()(const QueuePush& request) const { put_pair(request.key, request.value); }
  void operator()(const Get& request) const { put_text(request.key, out); }
  void operator()(const DeleteKey& request) const { put_text(request.key, out); }
  void operator()(const QueuePop& request) const { put_text(request.key, out); }
  void operator()(const QueueLen& request) const { put_text(request.key, out); }
  void operator()(const WatchKey& request) const { put_text(request.key, out); }
  void operator()(const CancelWait&) const {}
  void operator()(const GetNumKeys&) const {}
  void operator()(const ListKeys&) const {}

  void put_pair(Bytes key, Bytes value) const {
    put_text(key, out);
    put_text(value, out);
  }
};

// In the order of the variant.
constexpr std::array operations{
    Operation::validate,    Operation::ping,         Operation::set,        Operation::compare_set,
    Operation::get,         Operation::add,          Operation::check,      Operation::wait,
    Operation::cancel_wait, Operation::get_num_keys, Operation::delete_key, Operation::append,
    Operation::multi_get,   Operation::multi_set,    Operation::queue_push, Operation::queue_pop,
    Operation::queue_len,   Operation::list_keys,    Operation::barrier,    Operation::watch_key};
static_assert(operations.size() == std::variant_size_v<Request>);

}  // namespace

void encode(const Value& reply, std::string& out) {
  put_text(reply.value, out);
}

void encode(const Number& reply, std::string& out) {
  put(reply.number, out);
}

void encode(const Reply& reply, std::string& out) {
  std::visit(Overloaded{
                 [&](const Pong& pong) { put(pong.nonce, out); },
                 [&](const Value& value) { encode(value, out); },
                 [&](const Number& number) { encode(number, out); },
                 [&](const Checked& checked) { put_byte(checked.ready ? 0 : 1, out); },
                 [&](const Waited& waited) { put_byte(waited.cancelled ? 1 : 0, out); },
                 [&](const Values& values) { put_texts(values.values, out); },
                 [&](const Popped& popped) {
                   put(popped.length_before, out);
                   if (popped.length_before > 0) put_text(popped.value, out);
                 },
                 [&](const Keys& keys) { put_keys(keys.keys, out); },
                 [&](const WatchRegistered&) { put_byte(watch_registered, out); },
                 [&](const WatchNotice& notice) {
                   put_byte(static_cast<std::uint8_t>(notice.change), out);
                   put_text(notice.key, out);
                   put_text(notice.old_value, out);
                   put_text(notice.new_value, out);
                 },
             },
             reply);
}

std::uint64_t encoded_size(const Reply& reply) {
  constexpr std::uint64_t number_bytes = 8;
  return std::visit(Overloaded{
                        [](const Pong&) -> std::uint64_t { return 4; },
                        [](const Value& value) { return text_size(value.value); },
                        [](const Number&) { return number_bytes; },
                        [](const Checked&) -> std::uint64_t { return 1; },
                        [](const Waited&) -> std::uint64_t { return 1; },
                        [](const Values& values) { return texts_size(values.values); },
                        [](const Popped& popped) {
                          return number_bytes +
                                 (popped.length_before > 0 ? text_size(popped.value) : 0);
                        },
                        [](const Keys& keys) { return number_bytes + texts_size(keys.keys); },
                        [](const WatchRegistered&) -> std::uint64_t { return 1; },
                        [](const WatchNotice& notice) {
                          return 1 + text_size(notice.key) + text_size(notice.old_value) +
                                 text_size(notice.new_value);
                        },
                    },
                    reply);
}

bool encode(const Request& request, Dialect dialect, std::string& out) {
  const std::uint8_t opcode = opcode_of(dialect, operations[request.index()]);
  if (opcode == unknown_opcode) return false;
  put_byte(opcode, out);
  std::visit(PutFields{out}, request);
  return true;
}

}  // namespace cpprun::c10d
