// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Requests and replies of PyTorch's store protocol as values, and the opcodes of each dialect.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace cpprun::c10d {

// PyTorch's store protocol has three numberings, released without a version number: A in 1.9 … 2.0,
// B in 2.1, D since 2.2. This file defines the opcodes of each. Source of the numbers:
// docs/protocol.md §1.
//
// How the decoder detects a connection's dialect: D starts with opcode 0 and a magic number. Any
// other start is A or B, which are the same until one of these opcodes arrives:
//   9, 10, 11  exist in B only;
//   8          APPEND in B, DELETE_KEY in A: more bytes behind the key, at once or within a short
//              grace period, mean APPEND, since A's client sends nothing before it has the reply;
//   7          DELETE_KEY in B, WATCH_KEY in A: A watches only on a connection that carries nothing
//              else. As a first request it is read as DELETE_KEY, because no Python program can
//              watch; `cpprund --store-dialect=1.x` reads it as WATCH_KEY.
enum class Dialect : std::uint8_t {
  undecided,  // nothing has been received yet
  old,        // A or B: every opcode so far means the same in both
  a,          // 1.9 … 2.0
  b,          // 2.1
  d,          // 2.2 and later; no other dialect announces itself
};

enum class Operation : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  get_num_keys,
  watch_key,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  queue_push,
  queue_pop,
  queue_len,
  list_keys,
  barrier,
  ambiguous_7,  // WATCH_KEY in A, DELETE_KEY in B
  ambiguous_8,  // DELETE_KEY in A, APPEND in B
  unknown,
};

// The operation of that opcode in that dialect.
Operation operation_of(Dialect dialect, std::uint8_t opcode);

// The opcode of an operation, or unknown_opcode if the dialect lacks it.
inline constexpr std::uint8_t unknown_opcode = 0xff;
std::uint8_t opcode_of(Dialect dialect, Operation operation);

// "ADD", "WATCH_KEY": for log lines.
std::string_view name_of(Operation operation);

// The four bytes after D's opcode 0, little-endian on the wire: ce f7 85 3c.
inline constexpr std::uint32_t validate_magic = 0x3C85F7CE;

// The messages of the store protocol, independent of the dialect. They do not own memory: keys and
// values are views into the received bytes (Request) or into the store (Reply), so that the usual
// request needs no allocation. Use or copy them at once.

using Bytes = std::string_view;

struct KeyValue {
  Bytes key;
  Bytes value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// --- requests ------------------------------------------------------------------------------------

// The handshake of dialect D. No reply.
struct Validate {
  friend bool operator==(const Validate&, const Validate&) = default;
};
// Reply: Pong.
struct Ping {
  std::uint32_t nonce = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};
// No reply.
struct Set {
  Bytes key;
  Bytes value;
  friend bool operator==(const Set&, const Set&) = default;
};
// Reply: Value.
struct CompareSet {
  Bytes key;
  Bytes expected;
  Bytes desired;
  friend bool operator==(const CompareSet&, const CompareSet&) = default;
};
// Reply: Value.
struct Get {
  Bytes key;
  friend bool operator==(const Get&, const Get&) = default;
};
// Reply: Number, the new value.
struct Add {
  Bytes key;
  std::int64_t delta = 0;
  friend bool operator==(const Add&, const Add&) = default;
};
// Reply: Checked.
struct Check {
  std::span<const Bytes> keys;
};
// Reply: Waited, possibly much later.
struct Wait {
  std::span<const Bytes> keys;
};
// Reply: Waited{cancelled}.
struct CancelWait {
  friend bool operator==(const CancelWait&, const CancelWait&) = default;
};
// Reply: Number.
struct GetNumKeys {
  friend bool operator==(const GetNumKeys&, const GetNumKeys&) = default;
};
// Reply: Number, 1 if the key existed, else 0.
struct DeleteKey {
  Bytes key;
  friend bool operator==(const DeleteKey&, const DeleteKey&) = default;
};
// No reply.
struct Append {
  Bytes key;
  Bytes value;
  friend bool operator==(const Append&, const Append&) = default;
};
// Reply: Values.
struct MultiGet {
  std::span<const Bytes> keys;
};
// No reply.
struct MultiSet {
  std::span<const KeyValue> entries;
};
// No reply.
struct QueuePush {
  Bytes key;
  Bytes value;
  friend bool operator==(const QueuePush&, const QueuePush&) = default;
};
// Reply: Popped.
struct QueuePop {
  Bytes key;
  friend bool operator==(const QueuePop&, const QueuePop&) = default;
};
// Reply: Number.
struct QueueLen {
  Bytes key;
  friend bool operator==(const QueueLen&, const QueueLen&) = default;
};
// Reply: Keys.
struct ListKeys {
  friend bool operator==(const ListKeys&, const ListKeys&) = default;
};
// Reply: Waited, once world_size clients have arrived.
struct Barrier {
  Bytes key;
  std::int64_t world_size = 0;
  friend bool operator==(const Barrier&, const Barrier&) = default;
};
// Dialect A only. Reply: WatchRegistered, then a WatchNotice for every change.
struct WatchKey {
  Bytes key;
  friend bool operator==(const WatchKey&, const WatchKey&) = default;
};

using Request = std::variant<Validate, Ping, Set, CompareSet, Get, Add, Check, Wait, CancelWait,
                             GetNumKeys, DeleteKey, Append, MultiGet, MultiSet, QueuePush, QueuePop,
                             QueueLen, ListKeys, Barrier, WatchKey>;

// --- replies -----------------------------------------------------------------------------------

struct Pong {
  std::uint32_t nonce = 0;
  friend bool operator==(const Pong&, const Pong&) = default;
};
struct Value {
  Bytes value;
  friend bool operator==(const Value&, const Value&) = default;
};
struct Number {
  std::int64_t number = 0;
  friend bool operator==(const Number&, const Number&) = default;
};
struct Checked {
  bool ready = false;
  friend bool operator==(const Checked&, const Checked&) = default;
};
struct Waited {
  bool cancelled = false;
  friend bool operator==(const Waited&, const Waited&) = default;
};
struct Values {
  std::span<const Bytes> values;
};
struct Popped {
  std::int64_t length_before = 0;  // 0: the queue was empty and no value follows
  Bytes value;
  friend bool operator==(const Popped&, const Popped&) = default;
};
struct Keys {
  std::span<const Bytes> keys;
};
struct WatchRegistered {
  friend bool operator==(const WatchRegistered&, const WatchRegistered&) = default;
};
enum class Change : std::uint8_t { updated = 0, created = 1, deleted = 2 };
struct WatchNotice {
  Change change = Change::updated;
  Bytes key;
  Bytes old_value;
  Bytes new_value;
  friend bool operator==(const WatchNotice&, const WatchNotice&) = default;
};

using Reply = std::variant<Pong, Value, Number, Checked, Waited, Values, Popped, Keys,
                           WatchRegistered, WatchNotice>;

// Compares the elements; std::span itself has no equality.
bool operator==(const Check& left, const Check& right);
bool operator==(const Wait& left, const Wait& right);
bool operator==(const MultiGet& left, const MultiGet& right);
bool operator==(const MultiSet& left, const MultiSet& right);
bool operator==(const Values& left, const Values& right);
bool operator==(const Keys& left, const Keys& right);

}  // namespace cpprun::c10d
