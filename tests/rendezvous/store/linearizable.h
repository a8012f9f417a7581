// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What clients of a store saw of one key, judged: whether somebody who has that key in one place
// can have told them so. That is to be linearizable, as M. Herlihy and J. Wing call it (1990): each
// operation took effect in one moment between its beginning and its end. Searched for as J. Wing
// and C. Gong do (1993), with G. Lowe's memory of what was tried in vain (2017).
//
// Stronger than that: what one connection asks is carried out in the order in which it was asked.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cpprun {

struct StoreOperation {
  enum class Kind { set, get, add, compare_set, append, wait, check, erase, push, pop, length };
  Kind kind = Kind::get;
  std::string value = {};     // SET, APPEND and PUSH bring it; COMPARE_SET wants it
  std::string expected = {};  // of COMPARE_SET
  std::int64_t delta = 0;     // of ADD
  int client = 0;             // which connection
  std::uint64_t began = 0;    // counted, not measured: no two things happen at once
  // By then it had taken effect: it was answered, or something that its connection asked later was.
  // Absent: nobody knows whether it ever did.
  std::optional<std::uint64_t> ended = {};
  bool is_answered = false;  // and what was told is below
  std::string told = {};     // a value, empty where there is none
  std::int64_t number = 0;   // a sum, a length, 1 for yes
};

// What the store itself has of a key when all is over; of a queue, how long it is.
struct KeyAtEnd {
  std::string value = {};
  std::int64_t length = 0;
};

// Why nobody can have kept the key of these operations in one place; empty: somebody can. A key is
// a queue or a value, never both, and no value is empty.
std::string objection_to(std::span<const StoreOperation> history,
                         const std::optional<KeyAtEnd>& at_end);

}  // namespace cpprun
