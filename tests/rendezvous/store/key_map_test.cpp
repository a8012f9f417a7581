// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/key_map.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace key_map_test {

using namespace cpprun;

TEST_CASE("a key is found until it is erased, and its entry keeps its address") {
  KeyMap<int> map(HashSeed{1, 2});
  CHECK(map.find("a") == nullptr);
  auto& entry = map.try_emplace("a", 7);
  for (int at = 0; at < 10'000; ++at) map.try_emplace("k" + std::to_string(at), at);
  CHECK(map.find("a") == &entry);
  CHECK(map.try_emplace("a", 8).second == 7);
  CHECK(map.size() == 10'001);
  map.erase(&entry);
  CHECK_FALSE(map.contains("a"));
  CHECK(map.size() == 10'000);
}

TEST_CASE("the shards list every key once") {
  KeyMap<int> map;
  for (int at = 0; at < 1000; ++at) map.try_emplace("k" + std::to_string(at), at);
  int sum = 0;
  int count = 0;
  for (std::size_t shard = 0; shard < map.shard_count; ++shard) {
    map.visit_shard(shard, [&](const std::string&, int number) {
      sum += number;
      ++count;
    });
  }
  CHECK(count == 1000);
  CHECK(sum == 999 * 1000 / 2);
}

TEST_CASE("a discarded map is empty at once and is freed in pieces") {
  MemoryAccounting accounting;
  accounting.tend(true);
  KeyMap<Reservation> map;
  for (int at = 0; at < 1000; ++at) {
    map.try_emplace("k" + std::to_string(at), accounting, AccountId{}, std::size_t{10}, true);
  }
  map.free_later(accounting);
  CHECK(map.empty());
  CHECK(accounting.bytes_held() == 10'000);
  accounting.free_some(100 * 512);
  CHECK(accounting.bytes_held() == 9'000);
  while (accounting.has_deferred()) accounting.free_some(100 * 512);
  CHECK(accounting.bytes_held() == 0);
  map.try_emplace("again");
  CHECK(map.size() == 1);
}

TEST_CASE("a map never grows in all of its shards at once") {
  KeyMap<int> map;
  std::size_t before = 0;
  std::size_t most = 0;
  for (int at = 0; at < 200'000; ++at) {
    map.try_emplace("k" + std::to_string(at));
    if (at % 2048 != 0) continue;
    if (at > 20'000) most = std::max(most, (map.bucket_count() - before) * 10 / before);
    before = map.bucket_count();
  }
  // By at most a third while two thousand keys are added.
  CHECK(most <= 3);
}

}  // namespace key_map_test
