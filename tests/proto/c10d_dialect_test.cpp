// SPDX-License-Identifier: BSD-3-Clause
#include "proto/c10d/request.h"

#include <doctest/doctest.h>

namespace c10d_dialect_test {

using namespace cpprun::c10d;

TEST_CASE("the same opcode has another meaning in each dialect") {
  CHECK(operation_of(Dialect::a, 0) == Operation::set);
  CHECK(operation_of(Dialect::d, 0) == Operation::validate);
  CHECK(operation_of(Dialect::a, 7) == Operation::watch_key);
  CHECK(operation_of(Dialect::b, 7) == Operation::delete_key);
  CHECK(operation_of(Dialect::d, 7) == Operation::get_num_keys);
  CHECK(operation_of(Dialect::old, 7) == Operation::ambiguous_7);
  CHECK(operation_of(Dialect::old, 8) == Operation::ambiguous_8);
  CHECK(operation_of(Dialect::d, 18) == Operation::barrier);
  CHECK(operation_of(Dialect::d, 19) == Operation::unknown);
  CHECK(operation_of(Dialect::undecided, 0) == Operation::unknown);
}

TEST_CASE("an opcode and its operation map to each other") {
  for (std::uint8_t opcode = 0; opcode <= 18; ++opcode) {
    CHECK(opcode_of(Dialect::d, operation_of(Dialect::d, opcode)) == opcode);
  }
  CHECK(opcode_of(Dialect::a, Operation::append) == unknown_opcode);
  CHECK(opcode_of(Dialect::undecided, Operation::set) == unknown_opcode);
}

TEST_CASE("operations have names for the log") {
  CHECK(name_of(Operation::validate) == "VALIDATE");
  CHECK(name_of(Operation::barrier) == "BARRIER");
  CHECK(name_of(Operation::unknown) == "unknown");
}

}  // namespace c10d_dialect_test
