// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/decoder.h"

#include <fmt/format.h>

#include <array>
#include <bit>

#include "proto/c10d/cursor.h"

namespace cpprun::c10d {

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

// Only dialect D announces itself; the older two start with any request of theirs. False when five
// bytes are needed to tell and fewer are there.
bool settle_dialect(std::string_view bytes, Conversation& conversation) {
  const auto opcode = static_cast<std::uint8_t>(bytes[0]);
  if (opcode != 0) {
    conversation.dialect = Dialect::old;
    return true;
  }
  // An old SET whose key length looks like the magic would have a key of more than a gigabyte.
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

// What an opcode that dialects A and B number differently means, where that can be told at once.
Operation settle_operation(Operation operation, Conversation& conversation) {
  if (conversation.dialect != Dialect::old) return operation;
  switch (operation) {
    case Operation::multi_get:
    case Operation::multi_set:
    case Operation::cancel_wait:
      conversation.dialect = Dialect::b;
      return operation;
    case Operation::ambiguous_7:
      // A sends WATCH_KEY only on a connection that carries nothing else. As the very first request
      // DELETE_KEY is still the better guess: no Python program can watch.
      if (conversation.has_spoken) conversation.dialect = Dialect::b;
      return Operation::delete_key;
    default:
      return operation;
  }
}

// Looks through the fields of a request that names many keys, each field once, however small the
// pieces are in which they come. True when the request is all there.
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
  (void)cursor.integer(count);  // all of it was looked through just now
  keys.resize(count);
  for (Bytes& key : keys) (void)cursor.key(key);
  return complete(cursor, KeysRequest{keys});
}

Decoded decode_entries(std::string_view bytes, Progress& progress, std::vector<KeyValue>& entries) {
  Cursor ahead(bytes, progress.checked == 0 ? 1 : progress.checked);
  if (!look_through(ahead, progress, 2)) return stopped(ahead);
  Cursor cursor(bytes, 1);
  std::uint64_t count = 0;
  (void)cursor.integer(count);  // all of it was looked through just now
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

// B sends the key of an APPEND and its value together, A has nothing to send after its key.
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

}  // namespace cpprun::c10d
