// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Checks whether the results that clients saw of one key are linearizable (M. Herlihy and J. Wing,
// 1990): each operation took effect at one moment between its start and its end. The search follows
// J. Wing and C. Gong (1993), and remembers failed states as in G. Lowe (2017).
//
// Stronger than linearizability: requests of one connection are carried out in their order.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cpprun {

struct StoreOperation {
  enum class Kind { set, get, add, compare_set, append, wait, check, erase, push, pop, length };
  Kind kind = Kind::get;
  std::string value = {};     // the value of SET, APPEND and PUSH; the new value of COMPARE_SET
  std::string expected = {};  // of COMPARE_SET
  std::int64_t delta = 0;     // of ADD
  int client = 0;             // the connection
  std::uint64_t began = 0;    // counted, not measured: no two things happen at once
  // By then it had taken effect: it was answered, or a later request of its connection was. Absent:
  // unknown whether it ever took effect.
  std::optional<std::uint64_t> ended = {};
  bool is_answered = false;  // and the result is below
  std::string told = {};     // a value, empty if there is none
  std::int64_t number = 0;   // a sum, a length, 1 for yes
};

// The store's own final value of a key, or the length of a queue.
struct KeyAtEnd {
  std::string value = {};
  std::int64_t length = 0;
};

// Why the operations on this key are not linearizable; empty if they are. A key is a queue or a
// value, never both, and no value is empty.
std::string objection_to(std::span<const StoreOperation> history,
                         const std::optional<KeyAtEnd>& at_end);

}  // namespace cpprun
