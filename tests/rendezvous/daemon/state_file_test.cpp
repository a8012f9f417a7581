// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <doctest/doctest.h>

namespace state_file_test {

using namespace cpprun;

namespace {

std::string wrong_with(const std::string& file) {
  const auto record = record_of_state_file(file);
  return record ? std::string() : record.error().clause;
}

}  // namespace

TEST_CASE("a record is read as it was written, whatever bytes it has") {
  for (const std::string& record :
       {std::string(), std::string("a\n\0b", 4), std::string(9000, 'x')}) {
    const auto read = record_of_state_file(state_file_of(record));
    REQUIRE(read);
    CHECK(*read == record);
  }
  CHECK(state_file_of("123456789") == "cpprund-state 1 9 cbf43926\n123456789");
}

TEST_CASE("a truncated or changed file is not accepted as a record") {
  const std::string whole = state_file_of("a record of a job");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(wrong_with(whole.substr(0, size)).starts_with("is damaged: "));
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {1, 2, 4, 8, 16, 32, 64, 128}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      const auto read = record_of_state_file(changed);
      // An upper-case digit of the checksum is equivalent.
      CHECK((!read || *read == "a record of a job"));
    }
  }
  CHECK(wrong_with(whole + "x") == "is damaged: 18 bytes instead of 17");
}

TEST_CASE("a record of a later version is reported as such") {
  const auto later = record_of_state_file("cpprund-state 2 whatever");
  REQUIRE(!later);
  CHECK(later.error().is_later);
  CHECK(later.error().clause == "is of version 2, but this cpprund reads version 1");
}

TEST_CASE("the record of a cluster member is not a job's record") {
  CHECK(is_member_record(R"({"cpprund":{"life":"12ab"}})"));
  CHECK_FALSE(is_member_record(R"({"version":1,"job":"j"})"));
}

}  // namespace state_file_test
