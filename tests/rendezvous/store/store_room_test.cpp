// SPDX-License-Identifier: BSD-3-Clause
// How much a store may hold, for which client, and what happens beyond the limits.

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/c10d/bounds.h"
#include "rendezvous/client/bounds.h"
#include "tests/rendezvous/store/store_world.h"

namespace store_room_test {

using namespace cpprun;
using namespace cpprun::c10d;

namespace {

PeerAddress address(std::uint8_t last) {
  PeerAddress peer;
  peer.ip[15] = last;
  return peer;
}

struct BookedStore {
  explicit BookedStore(MemoryLimits limits)
      : accounting(std::make_shared<MemoryAccounting>(limits)),
        one(accounting->open_connection(address(1))),
        two(accounting->open_connection(address(2))),
        store(accounting) {}

  Actions apply(AccountId account, const Request& request) {
    Actions actions;
    store.apply(account == one ? alice : bob, request, actions, {account, nullptr});
    return actions;
  }
  static bool is_dropped(const Actions& actions) {
    return actions.size() == 1 && std::holds_alternative<Disconnect>(actions[0]);
  }

  std::shared_ptr<MemoryAccounting> accounting;
  AccountId one;
  AccountId two;
  Store store;
};

}  // namespace

TEST_CASE("stored data is accounted for until it is deleted") {
  BookedStore booked({});
  const std::string large(100'000, 'v');
  booked.apply(booked.one, Set{"k", large});
  booked.apply(booked.one, QueuePush{"q", large});
  booked.apply(booked.two, WatchKey{"k"});
  const std::vector<Bytes> keys{"a", "b"};
  booked.apply(booked.two, Wait{keys});
  CHECK(booked.accounting->bytes_held_by(booked.one) > 200'000);
  CHECK(booked.accounting->bytes_held_by(booked.two) > 0);
  booked.apply(booked.one, QueuePop{"q"});
  booked.apply(booked.one, DeleteKey{"k"});
  Actions ignored;
  booked.store.forget(bob, ignored);
  booked.apply(booked.one, Ping{1});  // releases what the last answers showed
  CHECK(booked.accounting->bytes_held() == 0);
}

TEST_CASE("clearing or destroying a store leaves no charges") {
  const auto accounting = std::make_shared<MemoryAccounting>();
  {
    Store store(accounting);
    Actions actions;
    store.apply(alice, Set{"k", std::string(10'000, 'v')}, actions);
    store.clear();
    CHECK(accounting->bytes_held() == 0);
    store.apply(alice, Append{"k", std::string(10'000, 'v')}, actions);
    CHECK(accounting->bytes_held() > 10'000);
  }
  CHECK(accounting->bytes_held() == 0);
}

TEST_CASE("only a client that exceeds the memory limit is dropped") {
  BookedStore booked({.bytes_max = 1'000'000});
  booked.apply(booked.one, Set{"k", std::string(800'000, 'v')});
  const Actions actions = booked.apply(booked.two, Set{"l", std::string(100'000, 'v')});
  REQUIRE(BookedStore::is_dropped(actions));
  CHECK(std::get<Disconnect>(actions[0]).connection == bob);
  CHECK(std::get<Disconnect>(actions[0])
            .reason.starts_with("all clients together hold 0.8 of at most 0.8 MiB"));
  CHECK(booked.store.key_count() == 1);
  CHECK(booked.apply(booked.one, Get{"k"}).size() == 1);
  // There is room for small values.
  CHECK_FALSE(BookedStore::is_dropped(booked.apply(booked.two, Add{"n", 1})));
}

TEST_CASE("every request that makes a store grow is held to the limits") {
  const std::string value(500, 'v');
  const std::vector<Bytes> keys{value, "b", "c"};
  const std::vector<KeyValue> entries{{"a", value}, {"b", value}};
  for (const Request& request :
       {Request{Set{"a", value}}, Request{CompareSet{"a", "", value}}, Request{Append{"a", value}},
        Request{QueuePush{"q", value}}, Request{MultiSet{entries}}, Request{Wait{keys}},
        Request{WatchKey{value}}, Request{Add{value, 1}}, Request{Barrier{value, 2}}}) {
    CAPTURE(request.index());
    BookedStore booked({.address_bytes_max = 600});
    CHECK(BookedStore::is_dropped(booked.apply(booked.one, request)));
    CHECK(booked.store.key_count() == 0);
    CHECK(booked.accounting->bytes_held() == 0);
    BookedStore roomy({.address_bytes_max = 60'000});
    CHECK_FALSE(BookedStore::is_dropped(roomy.apply(roomy.one, request)));
  }
}

TEST_CASE("keys are counted for the address that stored them last") {
  BookedStore booked({.address_keys_max = 2});
  booked.apply(booked.one, Set{"a", "1"});
  booked.apply(booked.one, Set{"b", "1"});
  CHECK(BookedStore::is_dropped(booked.apply(booked.one, Set{"c", "1"})));
  // Existing keys may change at any time.
  CHECK_FALSE(BookedStore::is_dropped(booked.apply(booked.one, Set{"b", "2"})));
  booked.apply(booked.two, Set{"a", "2"});
  CHECK_FALSE(BookedStore::is_dropped(booked.apply(booked.one, Set{"c", "1"})));
  booked.apply(booked.two, Add{"d", 1});
  CHECK(BookedStore::is_dropped(booked.apply(booked.two, Add{"e", 1})));
}

TEST_CASE("an APPEND beyond the maximum size of a value ends its connection") {
  StoreWorld world;
  world.apply(alice, Set{"k", std::string(bounds::store_value_bytes_max - 1, 'v')});
  CHECK(world.apply(alice, Append{"k", "x"}) == nothing);
  CHECK(std::holds_alternative<Disconnect>(world.apply(bob, Append{"k", "y"}).at(0)));
}

TEST_CASE("a COMPARE_SET of hundreds of megabytes ends its connection before it is compared") {
  StoreWorld world;
  const std::string large(bounds::store_compare_bytes_max + 1, 'v');
  world.apply(alice, Set{"k", large});
  CHECK(world.apply(alice, CompareSet{"k", "other", "x"}).size() == 1);
  CHECK(std::holds_alternative<Disconnect>(world.apply(bob, CompareSet{"k", large, "x"}).at(0)));
}

TEST_CASE("a large value is returned by reference, once for each request") {
  StoreWorld world;
  const std::string large(1'000'000, 'v');
  world.apply(alice, Set{"k", large});
  world.apply(alice, Set{"s", "short"});
  const std::vector<Bytes> keys{"k", "missing", "s", "k"};
  const Actions actions = world.apply(bob, MultiGet{keys});
  REQUIRE(actions.size() == 1);
  const auto& shared_reply = std::get<SharedReply>(actions[0]);
  REQUIRE(shared_reply.reply.shared.size() == 2);
  CHECK(shared_reply.reply.shared[0].slice.chunk == shared_reply.reply.shared[1].slice.chunk);
  CHECK(shared_reply.reply.size() == 4 * 8 + 5 + 2 * large.size());
  CHECK(shared_reply.reply.copied.size() == 4 * 8 + 5);
}

TEST_CASE("a client that waits for other keys as well sees a push, and the next in line is woken") {
  StoreWorld world;
  world.wait(alice, {"q", "other"});
  world.wait(bob, {"q"});
  CHECK(world.apply(carol, QueuePush{"q", "one"}) == only(bob, Waited{}));
  CHECK(world.apply(carol, Set{"other", "x"}) == only(alice, Waited{}));
}

TEST_CASE("a client whose only pending wait is a queue is woken by a push") {
  StoreWorld world;
  world.wait(alice, {"q", "other"});
  world.wait(bob, {"q"});
  world.apply(carol, Set{"other", "x"});
  CHECK(world.apply(carol, QueuePush{"q", "one"}) == only(alice, Waited{}));
  CHECK(world.forget(alice) == only(bob, Waited{}));
}

}  // namespace store_room_test
