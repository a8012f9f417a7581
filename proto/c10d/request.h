// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a store client says and what it hears, without the numbering of its dialect. Nothing here
// owns memory: keys and values are views into the bytes that were received (a Request) or into the
// store (a Reply), so that the usual request costs no allocation. They are used at once or copied.

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace cpprun::c10d {

using Bytes = std::string_view;

struct KeyValue {
  Bytes key;
  Bytes value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// --- requests ----------------------------------------------------------------------------------

// The handshake of dialect D. Not answered.
struct Validate {
  friend bool operator==(const Validate&, const Validate&) = default;
};
// Answered with Pong.
struct Ping {
  std::uint32_t nonce = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};
// Not answered.
struct Set {
  Bytes key;
  Bytes value;
  friend bool operator==(const Set&, const Set&) = default;
};
// Answered with Value.
struct CompareSet {
  Bytes key;
  Bytes expected;
  Bytes desired;
  friend bool operator==(const CompareSet&, const CompareSet&) = default;
};
// Answered with Value.
struct Get {
  Bytes key;
  friend bool operator==(const Get&, const Get&) = default;
};
// Answered with Number, the new value.
struct Add {
  Bytes key;
  std::int64_t delta = 0;
  friend bool operator==(const Add&, const Add&) = default;
};
// Answered with Checked.
struct Check {
  std::span<const Bytes> keys;
};
// Answered with Waited, possibly much later.
struct Wait {
  std::span<const Bytes> keys;
};
// Answered with Waited{cancelled}.
struct CancelWait {
  friend bool operator==(const CancelWait&, const CancelWait&) = default;
};
// Answered with Number.
struct GetNumKeys {
  friend bool operator==(const GetNumKeys&, const GetNumKeys&) = default;
};
// Answered with Number: 1 when there was one, else 0.
struct DeleteKey {
  Bytes key;
  friend bool operator==(const DeleteKey&, const DeleteKey&) = default;
};
// Not answered.
struct Append {
  Bytes key;
  Bytes value;
  friend bool operator==(const Append&, const Append&) = default;
};
// Answered with Values.
struct MultiGet {
  std::span<const Bytes> keys;
};
// Not answered.
struct MultiSet {
  std::span<const KeyValue> entries;
};
// Not answered.
struct QueuePush {
  Bytes key;
  Bytes value;
  friend bool operator==(const QueuePush&, const QueuePush&) = default;
};
// Answered with Popped.
struct QueuePop {
  Bytes key;
  friend bool operator==(const QueuePop&, const QueuePop&) = default;
};
// Answered with Number.
struct QueueLen {
  Bytes key;
  friend bool operator==(const QueueLen&, const QueueLen&) = default;
};
// Answered with Keys.
struct ListKeys {
  friend bool operator==(const ListKeys&, const ListKeys&) = default;
};
// Answered with Waited once world_size have come.
struct Barrier {
  Bytes key;
  std::int64_t world_size = 0;
  friend bool operator==(const Barrier&, const Barrier&) = default;
};
// Dialect A only. Answered with WatchRegistered, then with a WatchNotice for every change.
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

// A span compares by what it shows, as a view does; std::span itself has no equality.
bool operator==(const Check& left, const Check& right);
bool operator==(const Wait& left, const Wait& right);
bool operator==(const MultiGet& left, const MultiGet& right);
bool operator==(const MultiSet& left, const MultiSet& right);
bool operator==(const Values& left, const Values& right);
bool operator==(const Keys& left, const Keys& right);

}  // namespace cpprun::c10d
