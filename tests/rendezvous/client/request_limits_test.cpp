// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/request_limits.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d/bounds.h"
#include "rendezvous/client/bounds.h"

namespace request_limits_test {

using namespace cpprun;

namespace {

// Bytes that are only measured.
std::string_view bytes(std::size_t size) {
  static const char start = 'x';
  return {&start, size};
}

std::string reason(const c10d::Request& request) {
  const auto objection = objection_to(request);
  if (!objection) return "";
  CHECK(objection->code == StoreErrorCode::too_large);
  return objection->reason;
}

}  // namespace

TEST_CASE("requests up to the limits are accepted") {
  const std::string key(bounds::store_key_bytes_max, 'k');
  CHECK(reason(c10d::Set{key, bytes(bounds::store_value_bytes_max)}) == "");
  CHECK(reason(c10d::CompareSet{key, bytes(bounds::store_compare_bytes_max), ""}) == "");
  const std::vector<c10d::Bytes> keys(bounds::store_keys_per_request_max, "k");
  CHECK(reason(c10d::MultiGet{keys}) == "");
  CHECK(reason(c10d::GetNumKeys{}) == "");
}

TEST_CASE("a key, value or number of keys beyond its limit is named with both numbers") {
  const std::string key(bounds::store_key_bytes_max + 1, 'k');
  for (const c10d::Request& request :
       {c10d::Request(c10d::Get{key}), c10d::Request(c10d::Add{key, 1}),
        c10d::Request(c10d::Append{key, ""}), c10d::Request(c10d::QueuePop{key}),
        c10d::Request(c10d::Barrier{key, 1})}) {
    CHECK(reason(request).ends_with("has 8193 bytes, more than 8192"));
  }
  CHECK(reason(c10d::QueuePush{"q", bytes(bounds::store_value_bytes_max + 1)}) ==
        "a value of 268435457 bytes, more than 268435456");
  CHECK(reason(c10d::CompareSet{"c", bytes(bounds::store_compare_bytes_max + 1), ""}) ==
        "COMPARE_SET with a value of 16777217 bytes, more than 16777216");
  const std::vector<c10d::Bytes> keys(bounds::store_keys_per_request_max + 1, "k");
  CHECK(reason(c10d::Wait{keys}) == "a request with 131073 keys, more than 131072");
}

TEST_CASE("a request of many values is limited as a whole") {
  const std::vector<c10d::KeyValue> entries(3, {"k", bytes(bounds::store_value_bytes_max)});
  CHECK(reason(c10d::MultiSet{entries}) == "a request of more than 536870912 bytes");
}

}  // namespace request_limits_test
