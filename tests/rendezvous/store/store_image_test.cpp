// SPDX-License-Identifier: BSD-3-Clause
// The contents of a store, copied to another one, which answers like the first.

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "rendezvous/store/store.h"

namespace store_image_test {

using namespace cpprun;

namespace {

constexpr ConnectionId alice{1};
constexpr ConnectionId bob{2};
constexpr ConnectionId carol{3};

// Copies what it is shown into another store.
class Copier : public Store::Viewer {
 public:
  explicit Copier(Store& to) : to_(to) {}
  void value(std::string_view key, const StoredValue& value) override {
    to_.put_value(key, value.beginning(value.size()));
  }
  void queued(std::string_view key, const StoredValue& value) override {
    to_.put_queued(key, value.beginning(value.size()));
  }
  void waits(ConnectionId connection, std::string_view key, bool in_barrier) override {
    to_.put_waiting(connection, key, in_barrier);
  }
  void watches(ConnectionId connection, std::string_view key) override {
    to_.put_watching(connection, key);
  }
  void owed(ConnectionId connection, std::string_view key) override {
    to_.put_owed(connection, key);
  }

 private:
  Store& to_;
};

void copy(const Store& from, Store& to) {
  Copier copier(to);
  for (std::size_t shard = 0; shard < Store::shard_count; ++shard) from.show_shard(shard, copier);
}

Actions ask(Store& store, ConnectionId who, const c10d::Request& request) {
  Actions actions;
  store.apply(who, request, actions);
  return actions;
}

// The notified clients, in order.
std::vector<ConnectionId> notified(const Actions& actions) {
  std::vector<ConnectionId> who;
  for (const Action& action : actions) {
    if (const auto* answer = std::get_if<Answer>(&action)) who.push_back(answer->to);
  }
  return who;
}

}  // namespace

TEST_CASE("a copy has the values, the queues and their order") {
  Store store;
  (void)ask(store, alice, c10d::Set{.key = "a", .value = "1"});
  (void)ask(store, alice, c10d::Set{.key = "long", .value = std::string(100'000, 'v')});
  (void)ask(store, alice, c10d::Append{.key = "long", .value = "w"});
  for (const char* entry : {"x", "y"}) {
    (void)ask(store, alice, c10d::QueuePush{.key = "q", .value = entry});
  }
  Store other;
  copy(store, other);
  CHECK(other.key_count() == 2);
  CHECK(ask(other, bob, c10d::Add{.key = "a", .delta = 1}) ==
        Actions{Answer{bob, c10d::Number{2}}});
  const Actions found = ask(other, bob, c10d::Get{.key = "long"});
  CHECK(std::get<SharedReply>(found.at(0)).reply.text().substr(8) ==
        std::string(100'000, 'v') + "w");
  const Actions popped = ask(other, bob, c10d::QueuePop{.key = "q"});
  CHECK(popped == Actions{Answer{bob, c10d::Popped{2, "x"}}});
}

TEST_CASE("a waiting client also waits in the copy, and in the same order") {
  Store store;
  const std::string_view both[] = {"a", "b"};
  const std::string_view one[] = {"b"};
  (void)ask(store, carol, c10d::Wait{one});
  (void)ask(store, alice, c10d::Wait{both});
  (void)ask(store, bob, c10d::Barrier{.key = "door", .world_size = 2});
  Store other;
  copy(store, other);
  CHECK(other.parked_count() == 3);
  CHECK(notified(ask(other, ConnectionId{9}, c10d::Set{.key = "a", .value = ""})).empty());
  CHECK(notified(ask(other, ConnectionId{9}, c10d::Set{.key = "b", .value = ""})) ==
        std::vector{carol, alice});
  CHECK(notified(ask(other, carol, c10d::Barrier{.key = "door", .world_size = 2})) ==
        std::vector{carol, bob});
}

TEST_CASE("watches, and clients woken for an entry they have not taken, are the same in the copy") {
  Store store;
  const std::string_view queue[] = {"q"};
  (void)ask(store, alice, c10d::WatchKey{.key = "a"});
  (void)ask(store, bob, c10d::Wait{queue});
  (void)ask(store, carol, c10d::Wait{queue});
  (void)ask(store, alice, c10d::QueuePush{.key = "q", .value = "x"});  // bob's
  Store other;
  copy(store, other);
  CHECK(notified(ask(other, carol, c10d::Set{.key = "a", .value = ""})) == std::vector{alice});
  // Bob leaves without it; carol, who has requested something else, is not the next in line.
  Actions left_behind;
  other.forget(bob, left_behind);
  CHECK(notified(left_behind).empty());
  CHECK(notified(ask(other, alice, c10d::QueuePop{.key = "q"})) == std::vector{alice});
}

TEST_CASE("data of another store is accepted regardless of the memory limits") {
  const auto accounting = std::make_shared<MemoryAccounting>(MemoryLimits{.bytes_max = 10});
  Store store(accounting);
  store.take_all(true);
  (void)ask(store, alice, c10d::Set{.key = "a", .value = std::string(1000, 'v')});
  CHECK(store.key_count() == 1);
  store.take_all(false);
  CHECK(std::holds_alternative<Disconnect>(
      ask(store, alice, c10d::Set{.key = "b", .value = std::string(1000, 'v')}).at(0)));
}

}  // namespace store_image_test
