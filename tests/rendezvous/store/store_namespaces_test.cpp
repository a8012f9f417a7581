// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store_namespaces.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/store/store.h"

namespace store_namespaces_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const ConnectionId alice{1};
const ConnectionId bob{2};
const ConnectionId owner{9};
const TimePoint start{1000s};

StoreNamespaces of(std::vector<StoreNamespace> spaces) {
  auto all = StoreNamespaces::of(std::move(spaces));
  REQUIRE_MESSAGE(all, (all ? "" : all.error().reason));
  all->set_owner(owner);
  all->advance(start);
  return std::move(*all);
}

// A store with namespaces, and the reasons for which it closes clients.
struct World {
  StoreNamespaces namespaces;
  Store store;

  explicit World(std::vector<StoreNamespace> spaces) : namespaces(of(std::move(spaces))) {
    store.set_namespaces(&namespaces);
  }
  std::string apply(ConnectionId from, const c10d::Request& request) {
    Actions actions;
    store.apply(from, request, actions);
    for (const Action& action : actions) {
      if (const auto* const closed = std::get_if<Disconnect>(&action)) return closed->reason;
    }
    return {};
  }
  void forget(ConnectionId client) {
    Actions actions;
    store.forget(client, actions);
  }
  bool has(std::string_view key) const { return store.value_of(key) != nullptr; }
  // What the store's owner does.
  std::vector<std::string> end_leases(std::size_t keys_max = 100) {
    auto keys = namespaces.take_ended(keys_max);
    for (const std::string& key : keys) apply(owner, c10d::DeleteKey{key});
    std::ranges::sort(keys);
    return keys;
  }
};

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("prefixes must not be empty, or within each other") {
  CHECK(StoreNamespaces::of({{.prefix = ""}}).error().reason == "a namespace without a prefix");
  CHECK(StoreNamespaces::of({{.prefix = "/a/b"}, {.prefix = "/a/"}}).error().reason ==
        "the namespace \"/a/b\" is within another one, \"/a/\"");
  CHECK_FALSE(StoreNamespaces::of({{.prefix = "x"}, {.prefix = "x"}}));
  CHECK(StoreNamespaces::of({{.prefix = "/a/"}, {.prefix = "/ab"}}));
}

TEST_CASE("a namespace limits its keys and bytes, and no others") {
  World world({{.prefix = "/n/", .keys_max = 2, .bytes_max = 20}});
  CHECK(world.apply(alice, c10d::Set{"/n/a", "1"}).empty());
  CHECK(world.apply(alice, c10d::QueuePush{"/n/q", "1"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/n/b", "1"}) ==
        "the namespace \"/n/\" would have 3 keys, more than 2");
  CHECK(world.apply(alice, c10d::Add{"/n/c", 1}) ==
        "the namespace \"/n/\" would have 3 keys, more than 2");
  CHECK(world.apply(alice, c10d::Set{"/n/a", "0123456789a"}).empty());
  CHECK(world.apply(alice, c10d::Append{"/n/a", "b"}) ==
        "the namespace \"/n/\" would hold 21 bytes, more than 20");
  const c10d::KeyValue entries[] = {{"/n/a", "0123456789ab"}, {"/other", "x"}};
  CHECK_FALSE(world.apply(alice, c10d::MultiSet{entries}).empty());
  CHECK(world.apply(alice, c10d::Set{"/other", std::string(100, 'x')}).empty());
  // Room that is given up can be used again.
  CHECK(world.apply(alice, c10d::QueuePop{"/n/q"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/n/a", "1"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/n/b", "1"}).empty());
  CHECK(world.apply(alice, c10d::DeleteKey{"/n/b"}).empty());
  CHECK(world.apply(alice, c10d::QueuePush{"/n/q", "1234567890"}).empty());
  world.store.clear();
  CHECK(world.apply(alice, c10d::Set{"/n/b", "0123456789"}).empty());
}

TEST_CASE("a key with a lease is gone when the client that has set it last is gone") {
  World world({{.prefix = "/alive/", .ends_with_client = true}});
  CHECK(world.apply(alice, c10d::Set{"/alive/a", "1"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/alive/shared", "1"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/other", "1"}).empty());
  CHECK(world.apply(bob, c10d::Set{"/alive/shared", "2"}).empty());
  CHECK(world.namespaces.has_lease("/alive/a"));
  CHECK_FALSE(world.namespaces.has_lease("/other"));
  world.forget(alice);
  CHECK(world.end_leases() == Keys{"/alive/a"});
  CHECK_FALSE(world.has("/alive/a"));
  CHECK(world.has("/alive/shared"));
  CHECK(world.has("/other"));
  world.forget(bob);
  CHECK(world.end_leases() == Keys{"/alive/shared"});
  CHECK_FALSE(world.namespaces.has_ended());
}

TEST_CASE("a key whose lease has ended stays if another client sets it first") {
  World world({{.prefix = "/alive/", .ends_with_client = true}});
  CHECK(world.apply(alice, c10d::Set{"/alive/a", "1"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/alive/b", "1"}).empty());
  world.forget(alice);
  // Before it is taken, and afterwards.
  CHECK(world.apply(bob, c10d::Set{"/alive/a", "2"}).empty());
  CHECK(world.namespaces.take_ended(100) == Keys{"/alive/b"});
  CHECK(world.apply(bob, c10d::Set{"/alive/b", "2"}).empty());
  world.apply(owner, c10d::DeleteKey{"/alive/b"});
  CHECK(world.has("/alive/a"));
  CHECK(world.has("/alive/b"));
}

TEST_CASE("a lease with a time ends if its key is not set again in time") {
  World world({{.prefix = "/l/", .lease = 10s}});
  CHECK(world.apply(alice, c10d::Set{"/l/a", "1"}).empty());
  CHECK(world.apply(alice, c10d::Set{"/l/b", "1"}).empty());
  world.namespaces.advance(start + 6s);
  CHECK(world.apply(alice, c10d::Append{"/l/b", "2"}).empty());
  CHECK(world.namespaces.next_deadline() == start + 10s);
  CHECK_FALSE(world.namespaces.has_ended());
  world.namespaces.advance(start + 10s);
  CHECK(world.end_leases() == Keys{"/l/a"});
  CHECK(world.namespaces.next_deadline() == start + 16s);
  CHECK(world.apply(bob, c10d::DeleteKey{"/l/b"}).empty());
  CHECK_FALSE(world.namespaces.next_deadline().has_value());
  // The end of the client does not matter here.
  CHECK(world.apply(alice, c10d::Set{"/l/c", "1"}).empty());
  world.forget(alice);
  CHECK_FALSE(world.namespaces.has_ended());
}

TEST_CASE("a request is rejected only for keys that it would add") {
  World world({{.prefix = "/n/", .keys_max = 1}});
  const c10d::KeyValue twice[] = {{"/n/a", "1"}, {"/n/a", "2"}};
  CHECK(world.apply(alice, c10d::MultiSet{twice}).empty());
  // These change nothing.
  CHECK(world.apply(alice, c10d::CompareSet{"/n/b", "expected", "x"}).empty());
  CHECK(world.apply(alice, c10d::CompareSet{"/n/a", "1", std::string(100, 'x')}).empty());
  CHECK_FALSE(world.has("/n/b"));
  CHECK(world.apply(alice, c10d::CompareSet{"/n/b", "", "x"}) ==
        "the namespace \"/n/\" would have 2 keys, more than 1");
}

TEST_CASE("what an owner has taken and not deleted is taken again by the next one") {
  World world({{.prefix = "/l/", .ends_with_client = true}});
  for (const char* key : {"/l/a", "/l/b", "/l/c"}) {
    CHECK(world.apply(alice, c10d::Set{key, "1"}).empty());
  }
  world.forget(alice);
  CHECK(world.namespaces.take_ended(100).size() == 3);
  world.apply(owner, c10d::DeleteKey{"/l/a"});
  CHECK(world.apply(bob, c10d::Set{"/l/b", "2"}).empty());
  CHECK_FALSE(world.namespaces.has_ended());
  world.namespaces.set_owner(ConnectionId{10});
  CHECK(world.namespaces.has_ended());
  CHECK(world.namespaces.take_ended(100) == Keys{"/l/c"});
  world.apply(ConnectionId{10}, c10d::DeleteKey{"/l/c"});
  CHECK_FALSE(world.namespaces.has_ended());
  CHECK(world.store.key_count() == 1);
}

TEST_CASE("times of leases do not count while input may wait that renews them") {
  World world({{.prefix = "/l/", .lease = 10s}});
  CHECK(world.apply(alice, c10d::Set{"/l/a", "1"}).empty());
  world.namespaces.advance(start + 11s);
  using Times = StoreNamespaces::Times;
  CHECK_FALSE(world.namespaces.has_ended(Times::do_not_count));
  CHECK(world.namespaces.take_ended(100, Times::do_not_count).empty());
  CHECK(world.namespaces.has_ended());
  CHECK(world.apply(alice, c10d::Set{"/l/a", "1"}).empty());
  CHECK_FALSE(world.namespaces.has_ended());
}

TEST_CASE("leases of one client end in portions, and only its own keys") {
  World world({{.prefix = "/l/", .ends_with_client = true}});
  for (int each = 0; each < 10; ++each) {
    CHECK(world.apply(alice, c10d::Set{"/l/" + std::to_string(each), ""}).empty());
  }
  world.forget(alice);
  CHECK(world.end_leases(4).size() == 4);
  CHECK(world.namespaces.has_ended());
  CHECK(world.end_leases(4).size() == 4);
  CHECK(world.end_leases(4).size() == 2);
  CHECK(world.store.key_count() == 0);
}

TEST_CASE("what is kept about leases is accounted for") {
  const auto accounting = std::make_shared<MemoryAccounting>();
  Store plain(accounting);
  Actions actions;
  plain.apply(alice, c10d::Set{"/l/key", "v"}, actions);
  const std::uint64_t without = accounting->bytes_held();
  plain.clear();
  auto namespaces = of({{.prefix = "/l/", .lease = 1s}});
  {
    Store store(accounting);
    store.set_namespaces(&namespaces);
    store.apply(alice, c10d::Set{"/l/key", "v"}, actions);
    CHECK(accounting->bytes_held() > without + 100);
  }
  CHECK(accounting->bytes_held() == 0);
}

}  // namespace store_namespaces_test
