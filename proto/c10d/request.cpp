// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/request.h"

#include <algorithm>
#include <array>

namespace cpprun::c10d {

namespace {

using enum Operation;

// The index of an operation in its table is its opcode.
constexpr std::array operations_a{set,  compare_set,  get,       add,       check,
                                  wait, get_num_keys, watch_key, delete_key};
constexpr std::array operations_b{set,    compare_set, get,          add,
                                  check,  wait,        get_num_keys, delete_key,
                                  append, multi_get,   multi_set,    cancel_wait};
constexpr std::array operations_old{set,         compare_set, get,          add,
                                    check,       wait,        get_num_keys, ambiguous_7,
                                    ambiguous_8, multi_get,   multi_set,    cancel_wait};
constexpr std::array operations_d{validate,  set,       compare_set,  get,        add,
                                  check,     wait,      get_num_keys, delete_key, append,
                                  multi_get, multi_set, cancel_wait,  ping,       queue_push,
                                  queue_pop, queue_len, list_keys,    barrier};

constexpr std::array<std::string_view, 23> names{"VALIDATE",
                                                 "SET",
                                                 "COMPARE_SET",
                                                 "GET",
                                                 "ADD",
                                                 "CHECK",
                                                 "WAIT",
                                                 "GETNUMKEYS",
                                                 "WATCH_KEY",
                                                 "DELETE_KEY",
                                                 "APPEND",
                                                 "MULTI_GET",
                                                 "MULTI_SET",
                                                 "CANCEL_WAIT",
                                                 "PING",
                                                 "QUEUE_PUSH",
                                                 "QUEUE_POP",
                                                 "QUEUE_LEN",
                                                 "LIST_KEYS",
                                                 "BARRIER",
                                                 "DELETE_KEY or WATCH_KEY",
                                                 "DELETE_KEY or APPEND",
                                                 "unknown"};

template <std::size_t size>
Operation look_up(const std::array<Operation, size>& table, std::uint8_t opcode) {
  return opcode < size ? table[opcode] : unknown;
}

template <std::size_t size>
std::uint8_t position(const std::array<Operation, size>& table, Operation operation) {
  for (std::size_t at = 0; at < size; ++at) {
    if (table[at] == operation) return static_cast<std::uint8_t>(at);
  }
  return unknown_opcode;
}

}  // namespace

Operation operation_of(Dialect dialect, std::uint8_t opcode) {
  switch (dialect) {
    case Dialect::undecided:
      return unknown;
    case Dialect::old:
      return look_up(operations_old, opcode);
    case Dialect::a:
      return look_up(operations_a, opcode);
    case Dialect::b:
      return look_up(operations_b, opcode);
    case Dialect::d:
      return look_up(operations_d, opcode);
  }
  return unknown;
}

std::uint8_t opcode_of(Dialect dialect, Operation operation) {
  switch (dialect) {
    case Dialect::undecided:
      return unknown_opcode;
    case Dialect::old:
      return position(operations_old, operation);
    case Dialect::a:
      return position(operations_a, operation);
    case Dialect::b:
      return position(operations_b, operation);
    case Dialect::d:
      return position(operations_d, operation);
  }
  return unknown_opcode;
}

std::string_view name_of(Operation operation) {
  return names[static_cast<std::size_t>(operation)];
}

bool operator==(const Check& left, const Check& right) {
  return std::ranges::equal(left.keys, right.keys);
}
bool operator==(const Wait& left, const Wait& right) {
  return std::ranges::equal(left.keys, right.keys);
}
bool operator==(const MultiGet& left, const MultiGet& right) {
  return std::ranges::equal(left.keys, right.keys);
}
bool operator==(const MultiSet& left, const MultiSet& right) {
  return std::ranges::equal(left.entries, right.entries);
}
bool operator==(const Values& left, const Values& right) {
  return std::ranges::equal(left.values, right.values);
}
bool operator==(const Keys& left, const Keys& right) {
  return std::ranges::equal(left.keys, right.keys);
}

}  // namespace cpprun::c10d
