// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/store.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "proto/c10d/codec.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/store_world.h"

namespace store_test {

using namespace cpprun;
using namespace cpprun::c10d;
using World = StoreWorld;

TEST_CASE("every captured exchange of every dialect gets its captured answers") {
  for (const golden::Exchange& exchange : golden::exchanges()) {
    CAPTURE(exchange.name);
    World world;
    for (const golden::Step& step : exchange.steps) {
      CAPTURE(step.sent);
      std::string bytes;
      for (const Action& action : world.apply(alice, step.meant)) {
        encode(std::get<Answer>(action).reply, bytes);
      }
      CHECK(bytes == golden::bytes_of(step.answer));
    }
  }
}

TEST_CASE("a value is the last one set, and empty if there is none") {
  World world;
  CHECK(world.apply(alice, Get{"a"}) == only(alice, Value{""}));
  CHECK(world.apply(alice, Set{"a", "1"}) == nothing);
  CHECK(world.apply(bob, Get{"a"}) == only(bob, Value{"1"}));
  world.apply(bob, Set{"a", "two"});
  CHECK(world.get("a") == "two");
}

TEST_CASE("apply_alone() gives the replies of apply(), and books the same") {
  const auto with_limit = [] {
    return std::make_shared<MemoryAccounting>(MemoryLimits{.bytes_max = 40'000});
  };
  const auto one = with_limit();
  const auto two = with_limit();
  Store quick(one);
  Store plain(two);
  const std::vector<std::string> keys = {"", "a", "a key of more than sixteen bytes", "n", "m"};
  const std::vector<std::string> values = {
      "", "1", " -20", "text", std::string(3'000, 'x'), std::string(70'000, 'y')};
  std::mt19937 random(7);
  const auto one_of = [&random](const auto& list) -> const auto& {
    return list[random() % list.size()];
  };
  int alone = 0;
  for (int step = 0; step < 20'000; ++step) {
    const ConnectionId from{1 + random() % 3};
    const std::string& key = one_of(keys);
    const Bytes named[] = {key};
    const std::vector<Request> choice = {
        Get{key},
        Set{key, one_of(values)},
        Add{key, static_cast<std::int64_t>(random() % 100) - 50},
        Get{key},
        Set{key, "4"},
        Add{key, 1},
        step % 50 == 0 ? Request{Wait{named}} : Request{Get{key}},
        step % 99 == 0 ? Request{WatchKey{key}} : Request{Get{key}},
        DeleteKey{key}};
    const Request& request = one_of(choice);
    Actions expected;
    plain.apply(from, request, expected);
    std::string reply;
    Actions actions;
    if (quick.apply_alone(from, request, {}, reply)) {
      ++alone;
      std::string encoded;
      for (const Action& action : expected) {
        REQUIRE(std::get<Answer>(action).to == from);
        encode(std::get<Answer>(action).reply, encoded);
      }
      REQUIRE(reply == encoded);
    } else {
      REQUIRE(reply.empty());
      quick.apply(from, request, actions);
      REQUIRE(actions == expected);
    }
    REQUIRE(one->bytes_held() == two->bytes_held());
    if (step % 500 == 0) {
      for (const ConnectionId each : {alice, bob, carol}) {
        Actions left;
        quick.forget(each, left);
        plain.forget(each, left);
      }
    }
  }
  CHECK(alone > 1'000);
}

TEST_CASE("an observer sees every change of a value, as what it is") {
  World world;
  std::vector<std::pair<Change, std::string>> seen;
  world.store.observe([&seen](Change change, std::string_view key, const StoredValue*) {
    seen.emplace_back(change, key);
  });
  std::string reply;
  const std::string large(3'000, 'x');  // requests refer to their bytes
  for (const Request& request :
       std::initializer_list<Request>{Set{"a", "1"}, Set{"a", "2"}, Add{"a", 1}, Set{"long", large},
                                      Set{"long", "short"}, Append{"a", "4"}, DeleteKey{"a"}}) {
    if (!world.store.apply_alone(alice, request, {}, reply)) world.apply(alice, request);
  }
  CHECK(seen == std::vector<std::pair<Change, std::string>>{{Change::created, "a"},
                                                            {Change::updated, "a"},
                                                            {Change::updated, "a"},
                                                            {Change::created, "long"},
                                                            {Change::updated, "long"},
                                                            {Change::updated, "a"},
                                                            {Change::deleted, "a"}});
}

TEST_CASE("keys of a process group of PyTorch are noticed until the store is emptied") {
  World world;
  world.apply(alice, Set{"my/default_pg/key", "1"});
  world.apply(alice, Set{"default_pgx", "1"});
  CHECK_FALSE(world.store.has_process_group());
  world.apply(alice, Set{"/default_pg/0//cpu//0/1", "1"});
  CHECK(world.store.has_process_group());
  world.store.clear();
  CHECK_FALSE(world.store.has_process_group());
  world.apply(alice, Add{"//worker/attempt_0/default_pg/0/x", 1});
  CHECK(world.store.has_process_group());
  Store copy;
  copy.put_value("default_pg/0//cpu//0/1", "1");
  CHECK(copy.has_process_group());
  Store moved = std::move(copy);
  CHECK(moved.has_process_group());
}

TEST_CASE("keys and values may hold any bytes, or none") {
  World world;
  const std::string odd("\0\xff/\n", 4);
  world.apply(alice, Set{odd, odd});
  world.apply(alice, Set{"", "empty key"});
  world.apply(alice, Set{"empty value", ""});
  CHECK(world.get(odd) == odd);
  CHECK(world.get("") == "empty key");
  CHECK(world.get("empty value").empty());
  CHECK(world.key_count() == 3);
}

TEST_CASE("ADD counts from nothing and stores decimal text") {
  World world;
  CHECK(world.apply(alice, Add{"n", 5}) == only(alice, Number{5}));
  CHECK(world.apply(alice, Add{"n", -7}) == only(alice, Number{-2}));
  CHECK(world.get("n") == "-2");
}

TEST_CASE("ADD parses numbers as leniently as upstream does") {
  World world;
  world.apply(alice, Set{"n", " 12abc"});
  CHECK(world.apply(alice, Add{"n", 1}) == only(alice, Number{13}));
  world.apply(alice, Set{"n", "+4"});
  CHECK(world.apply(alice, Add{"n", 1}) == only(alice, Number{5}));
}

TEST_CASE("ADD wraps around like upstream") {
  World world;
  world.apply(alice, Set{"n", "9223372036854775807"});
  CHECK(world.apply(alice, Add{"n", 1}) == only(alice, Number{INT64_MIN}));
}

TEST_CASE("a key with control characters cannot forge a log line") {
  World world;
  const std::string key = "n\"\ncpprund: job \"a\" is over\u009b2J\u202e" + std::string(200, 'x');
  world.apply(alice, Set{key, "text"});
  const auto actions = world.apply(bob, Add{key, 1});
  REQUIRE(actions.size() == 1);
  const auto reason = std::get<Disconnect>(actions.front()).reason;
  CHECK(reason.starts_with("ADD on key \"n\"?cpprund: job \"a\" is over?2J?xxx"));
  CHECK(reason.size() < 130);
}

TEST_CASE("ADD on an invalid number ends its connection and changes nothing") {
  World world;
  for (const char* text : {"abc", "", "+-1", "  ", "99999999999999999999"}) {
    CAPTURE(text);
    world.apply(alice, Set{"n", text});
    const Actions actions = world.apply(bob, Add{"n", 1});
    CHECK(actions == Actions{Disconnect{bob, "ADD on key \"n\", whose value is not a number"}});
    CHECK(world.get("n") == text);
  }
}

TEST_CASE("COMPARE_SET has four cases") {
  World world;
  CHECK(world.apply(alice, CompareSet{"k", "x", "y"}) == only(alice, Value{"x"}));
  CHECK(world.key_count() == 0);
  CHECK(world.apply(alice, CompareSet{"k", "", "1"}) == only(alice, Value{"1"}));
  CHECK(world.apply(alice, CompareSet{"k", "1", "2"}) == only(alice, Value{"2"}));
  CHECK(world.apply(alice, CompareSet{"k", "1", "3"}) == only(alice, Value{"2"}));
  CHECK(world.get("k") == "2");
}

TEST_CASE("COMPARE_SET wakes waiters exactly when a value was stored") {
  World world;
  world.wait(bob, {"k"});
  CHECK(world.apply(alice, CompareSet{"k", "x", "y"}) == only(alice, Value{"x"}));
  CHECK(world.store.parked_count() == 1);
  CHECK(world.apply(alice, CompareSet{"k", "", "1"}) ==
        Actions{Answer{alice, Value{"1"}}, Answer{bob, Waited{}}});
}

TEST_CASE("APPEND creates a value, extends it and wakes waiters") {
  World world;
  world.wait(bob, {"k"});
  CHECK(world.apply(alice, Append{"k", "ab"}) == only(bob, Waited{}));
  world.apply(alice, Append{"k", "cd"});
  CHECK(world.get("k") == "abcd");
}

TEST_CASE("DELETE_KEY reports whether the key existed and does not affect queues") {
  World world;
  world.apply(alice, Set{"k", "v"});
  world.apply(alice, QueuePush{"k", "entry"});
  CHECK(world.apply(alice, DeleteKey{"k"}) == only(alice, Number{1}));
  CHECK(world.apply(alice, DeleteKey{"k"}) == only(alice, Number{0}));
  CHECK(world.apply(alice, QueueLen{"k"}) == only(alice, Number{1}));
}

TEST_CASE("GETNUMKEYS and LIST_KEYS count values, not queues") {
  World world;
  world.apply(alice, Add{"init/", 1});
  world.apply(alice, QueuePush{"q", "entry"});
  CHECK(world.key_count() == 1);
  constexpr Bytes listed[] = {"init/"};
  CHECK(world.apply(alice, ListKeys{}) == only(alice, Keys{listed}));
}

TEST_CASE("MULTI_SET and MULTI_GET keep their order") {
  World world;
  const std::vector<KeyValue> entries{{"a", "1"}, {"b", "2"}, {"a", "3"}};
  CHECK(world.apply(alice, MultiSet{entries}) == nothing);
  const std::vector<Bytes> keys{"b", "missing", "a", "b"};
  const std::vector<Bytes> values{"2", "", "3", "2"};
  CHECK(world.apply(alice, MultiGet{keys}) == only(alice, Values{values}));
}

TEST_CASE("CHECK is ready when every key exists, as a value or as a queue") {
  World world;
  CHECK(world.apply(alice, Check{}) == only(alice, Checked{true}));
  world.apply(alice, Set{"a", "1"});
  const std::vector<Bytes> both{"a", "q"};
  CHECK(world.apply(alice, Check{both}) == only(alice, Checked{false}));
  world.apply(alice, QueuePush{"q", "entry"});
  CHECK(world.apply(alice, Check{both}) == only(alice, Checked{true}));
}

}  // namespace store_test
