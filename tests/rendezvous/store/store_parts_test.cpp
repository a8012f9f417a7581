// SPDX-License-Identifier: BSD-3-Clause
// A request with very many keys has the same result in parts as in one.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/rendezvous/store/store_world.h"

namespace store_parts_test {

using namespace cpprun;
using namespace cpprun::c10d;

TEST_CASE("a wait in parts is answered when the last of its keys exists") {
  StoreWorld world;
  world.apply(bob, Set{"b", "1"});
  const std::vector<Bytes> keys{"a", "b", "c", "a"};
  Actions actions;
  CHECK(world.store.begin_parts(alice, Wait{keys}, {}, actions).empty());
  world.store.wait_for_part(alice, std::span(keys).first(2), {});
  world.store.wait_for_part(alice, std::span(keys).subspan(2), {});
  CHECK(actions.empty());
  CHECK(world.store.is_waiting(alice));
  CHECK(world.apply(bob, Set{"a", "1"}) == nothing);
  CHECK(world.apply(bob, Set{"c", "1"}) == only(alice, Waited{}));
}

TEST_CASE("parts start with the end of the wait that the client cancelled") {
  StoreWorld world;
  world.wait(alice, {"a"});
  const std::vector<Bytes> keys{"b"};
  Actions actions;
  CHECK(world.store.begin_parts(alice, Wait{keys}, {}, actions).empty());
  CHECK_FALSE(world.store.is_waiting(alice));
}

TEST_CASE("a request that exceeds the memory limit does not start") {
  const auto accounting = std::make_shared<MemoryAccounting>(MemoryLimits{.address_keys_max = 1});
  Store store(accounting);
  const AccountId account = accounting->open_connection({});
  const std::vector<KeyValue> entries{{"a", "1"}, {"b", "2"}};
  Actions actions;
  CHECK(store.begin_parts(alice, MultiSet{entries}, {account, nullptr}, actions) ==
        "its network ::/64 holds 0 of at most 1 keys");
}

TEST_CASE("the parts of a reply are those of the whole") {
  StoreWorld world;
  const std::string large(50'000, 'v');
  world.apply(alice, Set{"a", large});
  world.apply(alice, Set{"b", "short"});
  const std::vector<Bytes> keys{"a", "missing", "b"};
  CHECK_FALSE(world.store.has_all(keys));
  CHECK(world.store.has_all(std::span(keys).first(1)));
  IoSlices reply;
  world.store.show_part(std::span(keys).first(1), reply);
  world.store.show_part(std::span(keys).subspan(1), reply);
  const Actions whole = world.apply(alice, MultiGet{keys});
  CHECK(reply == std::get<SharedReply>(whole.at(0)).reply);
}

}  // namespace store_parts_test
