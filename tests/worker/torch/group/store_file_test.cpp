// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/meeting_store.h"

#include <doctest/doctest.h>

#include <cstring>

namespace store_file_test {

using namespace cpprun;

namespace {

ReadAt reader_of(const std::string& bytes) {
  return [&bytes](std::uint64_t at, void* to, std::size_t count) {
    if (at + count > bytes.size()) return false;
    std::memcpy(to, bytes.data() + at, count);
    return true;
  };
}

std::optional<std::string> fault_of(const std::string& bytes) {
  return store_file_fault(bytes.size(), reader_of(bytes));
}

std::string record(const std::string& text) {
  return std::string(1, static_cast<char>(text.size())) + std::string(3, '\0') + text;
}

}  // namespace

TEST_CASE("a file that LibTorch writes is a store: the count of users, sets and deletions") {
  CHECK_FALSE(fault_of(""));
  CHECK_FALSE(fault_of(record("refcount/") + record("1") + record("/a") + record("bc") +
                       record("-/a") + record("") + record("cleanup/") + record("1")));
}

TEST_CASE("a file of another kind is recognized at its first record") {
  CHECK(fault_of("root:x:0:0:root") == "the record at byte 0 is truncated or invalid");
  CHECK(fault_of(std::string(64, '\0')) == "the record at byte 0 has no key");
  CHECK(fault_of(record("a") + record("b")) == "the record at byte 0 has no key");
  CHECK(fault_of(record("refcount") + record("b")) == "the record at byte 0 has no key");
}

TEST_CASE("a file that two ranks release at the same moment is left behind unused") {
  const auto used = [](const char* users, const char* former) {
    return record("refcount/") + record("1") + record("/refcount/") + record("7") +
           record("/cpprun/hello/0") + record("1") + record("cleanup/") + record(former) +
           record("refcount/") + record(users);
  };
  const auto is_left = [](const std::string& bytes, int ranks) {
    return is_left_behind(bytes.size(), reader_of(bytes), ranks);
  };
  CHECK(is_left(used("0", "3"), 3));
  CHECK(is_left(used("0", "3"), 2));        // of a larger group
  CHECK_FALSE(is_left(used("0", "2"), 3));  // the third has not come yet
  CHECK_FALSE(is_left(used("1", "3"), 3));
  CHECK_FALSE(is_left(used("0", "x"), 1));
  CHECK_FALSE(is_left("", 1));
}

TEST_CASE("a truncated record is named by its position") {
  CHECK(fault_of(record("/a")) == "the record at byte 6 is truncated or invalid");
  CHECK(fault_of(record("/a") + "\5") == "the record at byte 6 is truncated or invalid");
  CHECK(fault_of(record("/a") + std::string("\5\0\0\0b", 5)) ==
        "the record at byte 6 is truncated or invalid");
}

}  // namespace store_file_test
