// SPDX-License-Identifier: BSD-3-Clause
// Effects of a request on other clients: waits, queues, barriers, watches.

#include "rendezvous/store/store.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/rendezvous/store/store_world.h"

namespace store_waits_test {

using namespace cpprun;
using namespace cpprun::c10d;
using World = StoreWorld;

// --- waits -------------------------------------------------------------------------------------

TEST_CASE("a wait for an existing key is answered at once") {
  World world;
  world.apply(alice, Set{"a", "1"});
  CHECK(world.wait(alice, {"a"}) == only(alice, Waited{}));
  CHECK(world.wait(alice, {}) == only(alice, Waited{}));
}

TEST_CASE("a wait is answered by the set that completes it") {
  World world;
  CHECK(world.wait(alice, {"a", "b"}) == nothing);
  CHECK(world.apply(bob, Set{"a", "x"}) == nothing);
  CHECK(world.apply(bob, Set{"b", "y"}) == only(alice, Waited{}));
  CHECK(world.store.parked_count() == 0);
}

TEST_CASE("a key that appeared and was deleted again is not waited for twice") {
  World world;
  world.wait(alice, {"a", "b"});
  world.apply(bob, Set{"a", "x"});
  world.apply(bob, DeleteKey{"a"});
  CHECK(world.apply(bob, Set{"b", "y"}) == only(alice, Waited{}));
}

TEST_CASE("a key that existed when the wait arrived is not waited for after its deletion") {
  World world;
  world.apply(bob, Set{"a", "x"});
  world.wait(alice, {"a", "b"});
  world.apply(bob, DeleteKey{"a"});
  CHECK(world.apply(bob, Set{"b", "y"}) == only(alice, Waited{}));
}

TEST_CASE("a key that is listed twice in a wait counts once") {
  World world;
  CHECK(world.wait(alice, {"a", "b", "a"}) == nothing);
  world.apply(bob, Set{"a", "x"});
  CHECK(world.apply(bob, Set{"b", "x"}) == only(alice, Waited{}));
}

TEST_CASE("all waiters of a key are woken in the order of their waits") {
  World world;
  world.wait(carol, {"a"});
  world.wait(alice, {"a"});
  CHECK(world.apply(bob, Add{"a", 1}) ==
        Actions{Answer{bob, Number{1}}, Answer{carol, Waited{}}, Answer{alice, Waited{}}});
}

TEST_CASE("MULTI_SET wakes a wait for its keys once") {
  World world;
  world.wait(alice, {"a", "b"});
  const std::vector<KeyValue> entries{{"a", "1"}, {"b", "2"}};
  CHECK(world.apply(bob, MultiSet{entries}) == only(alice, Waited{}));
}

TEST_CASE("CANCEL_WAIT is answered whether or not there was a wait") {
  World world;
  CHECK(world.apply(alice, CancelWait{}) == only(alice, Waited{.cancelled = true}));
  world.wait(alice, {"a"});
  CHECK(world.apply(alice, CancelWait{}) == only(alice, Waited{.cancelled = true}));
  CHECK(world.apply(bob, Set{"a", "1"}) == nothing);
}

TEST_CASE("a new request silently cancels the pending wait of its client") {
  World world;
  world.wait(alice, {"a"});
  CHECK(world.apply(alice, Add{"n", 7}) == only(alice, Number{7}));
  CHECK(world.apply(bob, Set{"a", "1"}) == nothing);
  CHECK(world.store.parked_count() == 0);
}

TEST_CASE("a second wait replaces the first") {
  World world;
  world.wait(alice, {"a"});
  world.wait(alice, {"b"});
  CHECK(world.apply(bob, Set{"a", "1"}) == nothing);
  CHECK(world.apply(bob, Set{"b", "1"}) == only(alice, Waited{}));
}

TEST_CASE("a client that has left is not answered") {
  World world;
  world.wait(alice, {"a", "b"});
  CHECK(world.forget(alice) == nothing);
  CHECK(world.apply(bob, Set{"a", "1"}) == nothing);
  CHECK(world.store.parked_count() == 0);
}

TEST_CASE("a wait for very many keys is released one by one without a search") {
  World world;
  std::vector<std::string> names;
  for (int at = 0; at < 20'000; ++at) names.push_back("key" + std::to_string(at));
  std::vector<Bytes> keys(names.begin(), names.end());
  world.wait(alice, keys);
  Actions actions;
  for (const std::string& name : names) {
    CHECK(actions.empty());
    world.store.apply(bob, Set{name, "x"}, actions);
  }
  CHECK(actions == only(alice, Waited{}));
}

TEST_CASE("clearing leaves nothing behind") {
  World world;
  world.apply(alice, Set{"a", "1"});
  world.apply(alice, QueuePush{"q", "1"});
  world.wait(bob, {"b"});
  world.store.clear();
  CHECK(world.store.key_count() == 0);
  CHECK(world.apply(alice, QueueLen{"q"}) == only(alice, Number{0}));
  CHECK(world.apply(alice, Set{"b", "1"}) == nothing);
}

// --- queues ------------------------------------------------------------------------------------

TEST_CASE("a queue returns entries in order and reports its length") {
  World world;
  world.apply(alice, QueuePush{"q", "one"});
  world.apply(alice, QueuePush{"q", "two"});
  CHECK(world.apply(bob, QueuePop{"q"}) == only(bob, Popped{2, "one"}));
  CHECK(world.apply(bob, QueuePop{"q"}) == only(bob, Popped{1, "two"}));
  CHECK(world.apply(bob, QueuePop{"q"}) == only(bob, Popped{}));
}

TEST_CASE("a push wakes only the oldest waiter") {
  World world;
  world.wait(alice, {"q"});
  world.wait(bob, {"q"});
  CHECK(world.apply(carol, QueuePush{"q", "one"}) == only(alice, Waited{}));
  CHECK(world.apply(carol, QueuePush{"q", "two"}) == only(bob, Waited{}));
  CHECK(world.apply(carol, QueuePush{"q", "three"}) == nothing);
}

TEST_CASE("a client woken by a push is not woken by a later push for something else") {
  World world;
  world.wait(alice, {"q"});
  world.apply(carol, QueuePush{"q", "one"});
  world.wait(alice, {"other"});
  CHECK(world.apply(carol, QueuePush{"q", "two"}) == nothing);
  CHECK(world.apply(carol, Set{"other", "x"}) == only(alice, Waited{}));
}

TEST_CASE("an entry is offered to the next in line when its taker has left") {
  World world;
  world.wait(alice, {"q"});
  world.wait(bob, {"q"});
  world.apply(carol, QueuePush{"q", "one"});
  CHECK(world.forget(alice) == only(bob, Waited{}));
  CHECK(world.apply(bob, QueuePop{"q"}) == only(bob, Popped{1, "one"}));
  CHECK(world.forget(bob) == nothing);
}

TEST_CASE("an entry is offered to the next in line when its taker has just cancelled") {
  World world;
  world.wait(alice, {"q"});
  world.wait(bob, {"q"});
  world.apply(carol, QueuePush{"q", "one"});
  CHECK(world.apply(alice, CancelWait{}) ==
        Actions{Answer{alice, Waited{.cancelled = true}}, Answer{bob, Waited{}}});
}

TEST_CASE("a client that popped its entry has no further claim") {
  World world;
  world.wait(alice, {"q"});
  world.wait(bob, {"q"});
  world.apply(carol, QueuePush{"q", "one"});
  world.apply(alice, QueuePop{"q"});
  CHECK(world.forget(alice) == nothing);
  CHECK(world.store.parked_count() == 1);
}

// --- barriers ----------------------------------------------------------------------------------

TEST_CASE("a barrier releases all clients when the last one arrives") {
  World world;
  CHECK(world.apply(alice, Barrier{"b", 3}) == nothing);
  CHECK(world.apply(bob, Barrier{"b", 3}) == nothing);
  CHECK(world.apply(carol, Barrier{"b", 3}) ==
        Actions{Answer{carol, Waited{}}, Answer{alice, Waited{}}, Answer{bob, Waited{}}});
  CHECK(world.get("b") == "3");
  CHECK(world.apply(alice, Barrier{"b", 3}) == only(alice, Waited{}));
}

TEST_CASE("a cancelled barrier stays counted") {
  World world;
  world.apply(alice, Barrier{"b", 2});
  CHECK(world.apply(alice, CancelWait{}) == only(alice, Waited{.cancelled = true}));
  CHECK(world.apply(bob, Barrier{"b", 2}) == only(bob, Waited{}));
}

TEST_CASE("a plain SET on its key opens a barrier early") {
  World world;
  world.apply(alice, Barrier{"b", 2});
  CHECK(world.apply(bob, Set{"b", "x"}) == only(alice, Waited{}));
}

TEST_CASE("a plain WAIT on a barrier's key is answered at the first arrival") {
  World world;
  world.wait(alice, {"b"});
  CHECK(world.apply(bob, Barrier{"b", 2}) == only(alice, Waited{}));
  CHECK(world.store.parked_count() == 1);
}

TEST_CASE("a barrier on an invalid number ends its connection") {
  World world;
  world.apply(alice, Set{"b", "x"});
  CHECK(world.apply(bob, Barrier{"b", 2}) ==
        Actions{Disconnect{bob, "BARRIER on key \"b\", whose value is not a number"}});
}

// --- watches -----------------------------------------------------------------------------------

TEST_CASE("a watcher is notified of creation, change and deletion") {
  World world;
  CHECK(world.apply(bob, WatchKey{"w"}) == only(bob, WatchRegistered{}));
  CHECK(world.apply(alice, Set{"w", "v1"}) ==
        only(bob, WatchNotice{Change::created, "w", "", "v1"}));
  CHECK(world.apply(alice, Set{"w", "v2"}) ==
        only(bob, WatchNotice{Change::updated, "w", "v1", "v2"}));
  CHECK(
      world.apply(alice, DeleteKey{"w"}) ==
      Actions{Answer{bob, WatchNotice{Change::deleted, "w", "v2", ""}}, Answer{alice, Number{1}}});
  CHECK(world.apply(alice, DeleteKey{"w"}) == only(alice, Number{0}));
}

TEST_CASE("a watcher is notified of an ADD after the ADD was answered") {
  World world;
  world.apply(bob, WatchKey{"w"});
  CHECK(world.apply(alice, Add{"w", 1}) ==
        Actions{Answer{alice, Number{1}}, Answer{bob, WatchNotice{Change::created, "w", "", "1"}}});
}

TEST_CASE("a watcher is notified of a successful COMPARE_SET before its requester is answered") {
  World world;
  world.apply(bob, WatchKey{"w"});
  CHECK(
      world.apply(alice, CompareSet{"w", "", "1"}) ==
      Actions{Answer{bob, WatchNotice{Change::created, "w", "", "1"}}, Answer{alice, Value{"1"}}});
  CHECK(world.apply(alice, CompareSet{"w", "x", "2"}) == only(alice, Value{"1"}));
}

TEST_CASE("a MULTI_SET that sets a key twice causes two notifications, each correct") {
  World world;
  world.apply(bob, WatchKey{"w"});
  const std::vector<KeyValue> entries{{"w", "1"}, {"w", "2"}};
  CHECK(world.apply(alice, MultiSet{entries}) ==
        Actions{Answer{bob, WatchNotice{Change::created, "w", "", "1"}},
                Answer{bob, WatchNotice{Change::updated, "w", "1", "2"}}});
}

TEST_CASE("APPEND notifies a watcher of the whole new value") {
  World world;
  world.apply(alice, Set{"w", "ab"});
  world.apply(bob, WatchKey{"w"});
  CHECK(world.apply(alice, Append{"w", "c"}) ==
        only(bob, WatchNotice{Change::updated, "w", "ab", "abc"}));
}

TEST_CASE("a client that watches twice is notified once, and a client that has left is not") {
  World world;
  world.apply(bob, WatchKey{"w"});
  world.apply(bob, WatchKey{"w"});
  CHECK(world.apply(alice, Set{"w", "1"}).size() == 1);
  world.forget(bob);
  CHECK(world.apply(alice, Set{"w", "2"}) == nothing);
}

}  // namespace store_waits_test
