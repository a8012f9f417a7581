// SPDX-License-Identifier: BSD-3-Clause
// Notifications to thousands of clients go to a limited number in each turn, and reach all of them
// in the end.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "rendezvous/store/bounds.h"
#include "tests/rendezvous/store/store_world.h"

namespace store_fan_out_test {

using namespace cpprun;
using namespace cpprun::c10d;

namespace {

constexpr std::size_t thousands = 5000;

ConnectionId client(std::size_t number) {
  return ConnectionId{1000 + number};
}

std::vector<std::string> names_of(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < count; ++at) names.push_back("key" + std::to_string(at));
  return names;
}

// Calls go_on() turn by turn; returns the number of actions of each turn.
std::vector<std::size_t> turns_of(Store& store, std::size_t steps, Actions& all) {
  std::vector<std::size_t> turns;
  while (store.has_unfinished()) {
    Actions actions;
    store.go_on(steps, actions);
    turns.push_back(actions.size());
    all.insert(all.end(), actions.begin(), actions.end());
  }
  return turns;
}

}  // namespace

TEST_CASE("a key with thousands of waiters wakes a limited number in each turn, the oldest first") {
  StoreWorld world;
  for (std::size_t at = 0; at < thousands; ++at) world.wait(client(at), {"go"});
  CHECK(world.apply(alice, Set{"go", "1"}) == nothing);
  CHECK(world.get("go") == "1");
  Actions all;
  CHECK(turns_of(world.store, 2000, all) == std::vector<std::size_t>{2000, 2000, 1000});
  CHECK(all.front() == Action{Answer{client(0), Waited{}}});
  CHECK(all.back() == Action{Answer{client(thousands - 1), Waited{}}});
  CHECK(world.store.parked_count() == 0);
  CHECK(world.wait(bob, {"go"}) == only(bob, Waited{}));
}

TEST_CASE("a MULTI_SET of keys with hundreds of waiters each is limited as a whole") {
  StoreWorld world;
  const std::vector<std::string> names = names_of(40);
  std::vector<Bytes> keys(names.begin(), names.end());
  for (std::size_t at = 0; at < 100; ++at) world.wait(client(at), keys);
  std::vector<KeyValue> entries;
  for (const Bytes key : keys) entries.push_back({key, "v"});
  // Each key has a hundred waiters, so ten keys are processed at once.
  CHECK(world.apply(alice, MultiSet{entries}) == nothing);
  Actions all;
  CHECK(turns_of(world.store, 1000, all).size() == 3);
  CHECK(all.size() == 100);
  CHECK(world.store.parked_count() == 0);
}

TEST_CASE("an arrival at a barrier does not visit the clients that arrived before") {
  StoreWorld world;
  for (std::size_t at = 0; at < thousands; ++at) {
    CHECK(world.apply(client(at), Barrier{"b", 5001}) == nothing);
    CHECK_FALSE(world.store.has_unfinished());
  }
  CHECK(world.apply(alice, Barrier{"b", 5001}) == only(alice, Waited{}));
  Actions all;
  CHECK(turns_of(world.store, 2000, all).size() == 3);
  CHECK(all.size() == thousands);
}

TEST_CASE("thousands of watchers are notified in turns, each of every change and in order") {
  StoreWorld world;
  for (std::size_t at = 0; at < thousands; ++at) world.apply(client(at), WatchKey{"w"});
  const std::vector<KeyValue> entries{{"w", "1"}, {"w", "22"}};
  CHECK(world.apply(alice, MultiSet{entries}) == nothing);
  Actions all;
  CHECK(turns_of(world.store, 2000, all).size() == 5);
  REQUIRE(all.size() == 2 * thousands);
  const std::string created = std::get<SharedReply>(all[0]).reply.text();
  const std::string updated = std::get<SharedReply>(all[thousands]).reply.text();
  CHECK(created.size() + 2 == updated.size());
  CHECK(updated.ends_with("22"));
}

TEST_CASE("a change is notified once for each part of its values") {
  StoreWorld world;
  for (std::size_t at = 0; at < 100; ++at) world.apply(client(at), WatchKey{"w"});
  // Two thousand pieces of 64 kB, which every notification refers to.
  const std::string piece(70'000, 'v');
  for (int at = 0; at < 50; ++at) {
    world.apply(alice, Append{"w", piece});
    Actions all;
    turns_of(world.store, 1000, all);
  }
  CHECK(world.apply(alice, Append{"w", piece}) == nothing);
  Actions all;
  CHECK(turns_of(world.store, 1000, all).size() > 8);
  CHECK(all.size() == 100);
}

TEST_CASE(
    "a client that cancels a wait for very many keys is not answered and leaves nothing behind") {
  StoreWorld world;
  const std::vector<std::string> names = names_of(thousands);
  world.wait(alice, std::vector<Bytes>(names.begin(), names.end()));
  CHECK(world.store.abandon_large_wait(alice));
  CHECK(world.store.parked_count() == 1);
  Actions all;
  CHECK(turns_of(world.store, 2000, all).size() == 3);
  CHECK(all.empty());
  CHECK(world.store.parked_count() == 0);
  CHECK(world.apply(bob, Set{"key7", "1"}) == nothing);
  world.wait(alice, {"a", "b"});
  CHECK_FALSE(world.store.abandon_large_wait(alice));
}

TEST_CASE("a client that leaves with many waits and watches is removed in turns") {
  StoreWorld world;
  const std::vector<std::string> names = names_of(thousands);
  for (const std::string& name : names) world.apply(alice, WatchKey{name});
  world.wait(alice, std::vector<Bytes>(names.begin(), names.end()));
  world.apply(bob, WatchKey{"key1"});
  CHECK(world.forget(alice) == nothing);
  CHECK(world.forget(carol) == nothing);  // she has nothing and is queued behind the other
  Actions all;
  CHECK(turns_of(world.store, 2000, all).size() > 3);
  CHECK(all.empty());
  CHECK(world.apply(carol, Set{"key1", "v"}) ==
        only(bob, WatchNotice{Change::created, "key1", "", "v"}));
}

TEST_CASE("a client that leaves during a large notification does not disturb it") {
  StoreWorld world;
  for (std::size_t at = 0; at < thousands; ++at) {
    world.apply(client(at), WatchKey{"go"});
    world.wait(client(at), {"go"});
  }
  world.apply(alice, Set{"go", "1"});
  Actions actions;
  world.store.go_on(100, actions);
  for (std::size_t at = 0; at < thousands; ++at) world.forget(client(at));
  Actions all;
  turns_of(world.store, 1000, all);
  CHECK(world.store.parked_count() == 0);
  CHECK(world.apply(alice, Set{"go", "2"}) == nothing);
  CHECK_FALSE(world.store.has_unfinished());
}

TEST_CASE("clearing ends a notification in progress") {
  StoreWorld world;
  for (std::size_t at = 0; at < thousands; ++at) world.wait(client(at), {"go"});
  world.apply(alice, Set{"go", "1"});
  CHECK(world.store.has_unfinished());
  world.store.clear();
  CHECK_FALSE(world.store.has_unfinished());
}

TEST_CASE("a discarded store is freed in pieces, with its queues, waits and watches") {
  const auto accounting = std::make_shared<MemoryAccounting>();
  accounting->tend(true);
  Store store(accounting);
  const auto freed_in = [&] {
    store.clear();
    int turns = 0;
    for (; accounting->has_deferred(); ++turns)
      accounting->free_some(1000 * bounds::store_work_of_key);
    CHECK(accounting->bytes_held() == 0);
    return turns;
  };
  Actions actions;
  for (std::size_t at = 0; at < thousands; ++at) store.apply(alice, QueuePush{"q", "v"}, actions);
  CHECK(freed_in() >= 5);
  const std::vector<Bytes> keys{"go"};
  for (std::size_t at = 0; at < thousands; ++at) store.apply(client(at), Wait{keys}, actions);
  CHECK(freed_in() >= 5);
  for (const std::string& name : names_of(thousands)) store.apply(alice, WatchKey{name}, actions);
  CHECK(freed_in() >= 5);
  const std::string large(bounds::store_freed_at_once_max, 'v');
  for (int at = 0; at < 500; ++at) {
    store.apply(alice, Set{"k" + std::to_string(at), large}, actions);
  }
  CHECK(freed_in() >= 8);
}

}  // namespace store_fan_out_test
