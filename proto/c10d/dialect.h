// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// PyTorch's store protocol exists in three numberings that were released without a version number:
// A in 1.9 … 2.0, B in 2.1, D since 2.2. This file says which opcode means what in which of them.
// Source of the numbers: docs/protocol.md §1.
//
// How the decoder finds a connection's dialect out: D begins with opcode 0 and a magic number. What
// begins otherwise is A or B, which is the same until one of these opcodes comes:
//   9, 10, 11  exist in B only;
//   8          APPEND in B, DELETE_KEY in A: more bytes behind the key, or within a short grace,
//              make it an APPEND, since A's client says nothing more before it is answered;
//   7          DELETE_KEY in B, WATCH_KEY in A: A watches only on a connection that carries nothing
//              else. As a first request it is taken for DELETE_KEY, because no Python program can
//              watch; `cpprund --store-dialect=1.x` takes it for WATCH_KEY.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cpprun::c10d {

enum class Dialect : std::uint8_t {
  undecided,  // nothing has been said yet
  old,        // A or B: every opcode so far means the same in both
  a,          // 1.9 … 2.0
  b,          // 2.1
  d,          // 2.2 and later; the only one that announces itself
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

// What that opcode asks for in that dialect.
Operation operation_of(Dialect dialect, std::uint8_t opcode);

// The opcode of an operation, or unknown_opcode where the dialect does not have it.
inline constexpr std::uint8_t unknown_opcode = 0xff;
std::uint8_t opcode_of(Dialect dialect, Operation operation);

// "ADD", "WATCH_KEY": for log lines.
std::string_view name_of(Operation operation);

// The four bytes after D's opcode 0, little-endian on the wire: ce f7 85 3c.
inline constexpr std::uint32_t validate_magic = 0x3C85F7CE;

}  // namespace cpprun::c10d
