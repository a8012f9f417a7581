// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_requests.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "rendezvous/etcd/bounds.h"

namespace record_sizes_test {

using namespace cpprun;

namespace {

std::string why(RecordSizes& sizes, const std::string& name, std::size_t bytes) {
  const auto kept = sizes.keep(name, bytes);
  return kept ? "" : kept.error().reason;
}

}  // namespace

TEST_CASE("records are counted by name") {
  RecordSizes sizes;
  CHECK(why(sizes, "a", 10) == "");
  CHECK(why(sizes, "a", 20) == "");
  CHECK(why(sizes, "b", 5) == "");
  CHECK(sizes.count() == 2);
  CHECK(sizes.bytes() == 25);
  sizes.drop("a");
  sizes.drop("a");
  CHECK(sizes.bytes() == 5);
  sizes.clear();
  CHECK(sizes.count() == 0);
  CHECK(sizes.bytes() == 0);
}

TEST_CASE("a record that exceeds a limit is rejected with the numbers") {
  RecordSizes sizes;
  CHECK(why(sizes, "", 1) == "a record without a name");
  CHECK(why(sizes, std::string(300, 'n'), 1).find("has 300 bytes, and the maximum is 256") !=
        std::string::npos);
  CHECK(why(sizes, "a", bounds::election_record_bytes_max + 1) ==
        "the record of \"a\" has 1048577 bytes, and the maximum is 1048576");
  for (std::size_t each = 0; each < bounds::election_records_max; ++each) {
    REQUIRE(why(sizes, fmt::format("{}", each), 1) == "");
  }
  CHECK(why(sizes, "more", 1) == "no room for the record of \"more\": the maximum is 1024 records");
  CHECK(why(sizes, "7", 2) == "");  // It exists already.
}

TEST_CASE("the total size of all records is limited") {
  RecordSizes sizes;
  const std::size_t count = bounds::election_records_bytes_max / bounds::election_record_bytes_max;
  for (std::size_t each = 0; each < count; ++each) {
    REQUIRE(why(sizes, fmt::format("{}", each), bounds::election_record_bytes_max) == "");
  }
  CHECK(why(sizes, "more", 1).find("the records would have 134217729 bytes") != std::string::npos);
  CHECK(why(sizes, "0", bounds::election_record_bytes_max - 1) == "");
  CHECK(why(sizes, "more", 1) == "");
}

}  // namespace record_sizes_test
