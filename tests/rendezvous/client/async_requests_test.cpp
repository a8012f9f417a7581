// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/async_requests.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proto/c10d/codec.h"

namespace async_requests_test {

using namespace cpprun;
using namespace std::chrono_literals;
using async_request::Close;
using async_request::Done;
using async_request::Open;

namespace {

const TimePoint start{1000s};
const TimePoint later = start + 10s;

std::string bytes_of(const c10d::Request& request) {
  std::string bytes;
  REQUIRE(c10d::encode(request, c10d::Dialect::d, bytes));
  return bytes;
}
std::string check_and_get(std::string_view key) {
  const c10d::Bytes keys[] = {key};
  return bytes_of(c10d::Check{keys}) + bytes_of(c10d::Get{key});
}
std::string wait_of(std::string_view key) {
  const c10d::Bytes keys[] = {key};
  return bytes_of(c10d::Wait{keys});
}

// A client whose connections the test plays.
struct World {
  AsyncRequests requests;

  explicit World(const AsyncRequests::Limits& limits = {}) : requests("/", limits) {
    CHECK(opens() == std::vector<std::size_t>{0});
    requests.opened(0);
  }
  // Everything that is unsent there, which is then sent.
  std::string sent(std::size_t connection) {
    std::string bytes(requests.unsent(connection));
    requests.sent(connection, bytes.size());
    return bytes;
  }
  void reply(std::size_t connection, const c10d::Reply& reply) {
    std::string bytes;
    c10d::encode(reply, bytes);
    hear(connection, bytes);
  }
  void hear(std::size_t connection, std::string_view bytes) {
    const auto room = requests.room(connection);
    REQUIRE(bytes.size() <= room.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    requests.received(connection, bytes.size());
  }
  std::vector<std::size_t> opens() {
    std::vector<std::size_t> all;
    for (const auto& action : requests.take_actions()) {
      if (const auto* const open = std::get_if<Open>(&action)) all.push_back(open->connection);
    }
    return all;
  }
  // The next results; other actions are dropped.
  std::vector<Done> done() {
    std::vector<Done> all;
    for (auto& action : requests.take_actions()) {
      if (auto* const done = std::get_if<Done>(&action)) all.push_back(std::move(*done));
    }
    return all;
  }
  Done only_done() {
    auto all = done();
    REQUIRE(all.size() == 1);
    return all[0];
  }
};

constexpr StoreErrorCode code_of(const Done& done) {
  return done.result ? StoreErrorCode{} : done.result.error().code;
}

}  // namespace

TEST_CASE("requests with an immediate reply share one connection, in order") {
  World world;
  const auto set = world.requests.set(later, "k", "v");
  const auto add = world.requests.add(later, "n", 3);
  const auto find = world.requests.find(later, "k");
  const auto dropped = world.requests.delete_key(later, "k");
  CHECK(world.sent(0) == bytes_of(c10d::Set{"/k", "v"}) + bytes_of(c10d::Add{"/n", 3}) +
                             check_and_get("/k") + bytes_of(c10d::DeleteKey{"/k"}));
  CHECK(world.only_done().id == *set);  // it was sent
  world.reply(0, c10d::Number{3});
  const Done added = world.only_done();
  CHECK(added.id == *add);
  CHECK(added.result->number == 3);
  world.reply(0, c10d::Checked{true});
  CHECK(world.done().empty());
  world.reply(0, c10d::Value{"v"});
  const Done found = world.only_done();
  CHECK(found.id == *find);
  CHECK(found.result->text == "v");
  world.reply(0, c10d::Number{1});
  CHECK(world.only_done().id == *dropped);
  CHECK(world.requests.in_progress() == 0);
}

TEST_CASE("a key that does not exist is found as nothing, and waited for on another connection") {
  World world;
  const auto find = world.requests.find(later, "k");
  const auto get = world.requests.get(later, "k");
  CHECK(world.sent(0) == check_and_get("/k") + check_and_get("/k"));
  for (int each = 0; each < 2; ++each) {
    world.reply(0, c10d::Checked{false});
    world.reply(0, c10d::Value{""});
  }
  auto actions = world.requests.take_actions();
  REQUIRE(actions.size() == 2);
  CHECK(std::get<Done>(actions[0]).id == *find);
  CHECK_FALSE(std::get<Done>(actions[0]).result->text.has_value());
  CHECK(std::get<Open>(actions[1]).connection == 1);
  CHECK(world.requests.unsent(1).empty());
  world.requests.opened(1);
  CHECK(world.sent(1) == wait_of("/k"));
  // Other requests are not delayed.
  CHECK(world.requests.add(later, "n", 1));
  CHECK(world.sent(0) == bytes_of(c10d::Add{"/n", 1}));
  world.reply(0, c10d::Number{1});
  CHECK(world.done().size() == 1);
  // The key exists, and is deleted again before its value is read.
  world.reply(1, c10d::Waited{});
  CHECK(world.sent(0) == check_and_get("/k"));
  world.reply(0, c10d::Checked{false});
  world.reply(0, c10d::Value{""});
  CHECK(world.sent(1) == wait_of("/k"));  // on the connection that was kept
  world.reply(1, c10d::Waited{});
  (void)world.sent(0);
  world.reply(0, c10d::Checked{true});
  world.reply(0, c10d::Value{"at last"});
  const Done got = world.only_done();
  CHECK(got.id == *get);
  CHECK(got.result->text == "at last");
}

TEST_CASE("a barrier is reached only after the requests that were made before it") {
  World world;
  CHECK(world.requests.set(later, "k", "v"));
  CHECK(world.requests.barrier(later, "b", 2));
  CHECK(world.sent(0) == bytes_of(c10d::Set{"/k", "v"}) + bytes_of(c10d::GetNumKeys{}));
  CHECK(world.opens().empty());
  world.reply(0, c10d::Number{1});
  CHECK(world.opens() == std::vector<std::size_t>{1});
  world.requests.opened(1);
  CHECK(world.sent(1) == bytes_of(c10d::Barrier{"/b", 2}));
  world.reply(1, c10d::Waited{});
  CHECK(world.only_done().result);
}

TEST_CASE("a request that times out leaves its reply to be dropped, and its wait to be cancelled") {
  World world;
  const auto add = world.requests.add(start + 1s, "n", 1);
  const auto wait = world.requests.wait(start + 2s, {"a", "b"});
  (void)world.sent(0);
  CHECK(world.requests.next_deadline() == start + 1s);
  world.requests.advance(start + 1s);
  Done late = world.only_done();
  CHECK(late.id == *add);
  CHECK(code_of(late) == StoreErrorCode::timeout);
  CHECK(late.result.error().reason == "no response from the store to ADD to /n");
  world.reply(0, c10d::Number{1});
  world.reply(0, c10d::Checked{false});
  CHECK(world.opens() == std::vector<std::size_t>{1});
  world.requests.opened(1);
  (void)world.sent(1);
  world.requests.advance(start + 2s);
  late = world.only_done();
  CHECK(late.id == *wait);
  CHECK(late.result.error().reason == "wait for /a, /b timed out");
  CHECK(world.sent(1) == bytes_of(c10d::CancelWait{}));
  CHECK_FALSE(world.requests.next_deadline().has_value());
  // The reply to the wait comes first, and then that to its cancellation.
  world.reply(1, c10d::Waited{});
  CHECK(world.requests.wait(later, {"c"}));
  (void)world.sent(0);
  world.reply(0, c10d::Checked{false});
  CHECK(world.opens() == std::vector<std::size_t>{2});
  world.reply(1, c10d::Waited{.cancelled = true});
  CHECK(world.requests.wait(later, {"d"}));
  (void)world.sent(0);
  world.reply(0, c10d::Checked{false});
  CHECK(world.opens().empty());
  CHECK(world.sent(1) == wait_of("/d"));
}

TEST_CASE("a cancelled request ends once, whatever still comes for it") {
  World world;
  const StoreError error{{"cancelled"}, StoreErrorCode::interrupted};
  const auto get = world.requests.get(later, "k");
  (void)world.sent(0);
  CHECK(world.requests.cancel(*get, error));
  CHECK(world.only_done().result.error() == error);
  CHECK_FALSE(world.requests.cancel(*get, error));
  world.reply(0, c10d::Checked{false});
  world.reply(0, c10d::Value{""});
  CHECK(world.requests.take_actions().empty());
  // While the connection of its wait is being opened: that one is kept for the next.
  const auto wait = world.requests.wait(later, {"a"});
  (void)world.sent(0);
  world.reply(0, c10d::Checked{false});
  CHECK(world.opens() == std::vector<std::size_t>{1});
  CHECK(world.requests.cancel(*wait, error));
  world.requests.opened(1);
  CHECK(world.requests.unsent(1).empty());
}

TEST_CASE("a request that ends before any of it was sent is not sent") {
  const StoreError error{{"cancelled"}, StoreErrorCode::interrupted};
  World world;
  const auto first = world.requests.add(later, "n", 1);
  const auto set = world.requests.set(later, "k", "v");
  CHECK(world.requests.add(start, "n", 2));
  const auto last = world.requests.add(later, "n", 3);
  // Of the first, only a part is sent; it is sent to its end, as the connection needs that.
  world.requests.sent(0, 3);
  CHECK(world.requests.cancel(*first, error));
  CHECK(world.requests.cancel(*set, error));
  world.requests.advance(start);
  CHECK(world.done().size() == 3);
  CHECK(world.sent(0) == bytes_of(c10d::Add{"/n", 1}).substr(3) + bytes_of(c10d::Add{"/n", 3}));
  world.reply(0, c10d::Number{1});
  CHECK(world.done().empty());
  world.reply(0, c10d::Number{4});
  const Done done = world.only_done();
  CHECK(done.id == *last);
  CHECK(done.result->number == 4);

  // What is queued before there is a connection, too; and the wait of a connection of its own.
  AsyncRequests early("/");
  CHECK(early.cancel(*early.add(later, "n", 1), error));
  early.opened(0);
  CHECK(early.unsent(0).empty());
  const auto barrier = world.requests.barrier(later, "b", 2);
  (void)world.sent(0);
  world.reply(0, c10d::Number{1});
  CHECK(world.opens() == std::vector<std::size_t>{1});
  world.requests.opened(1);
  CHECK(world.requests.cancel(*barrier, error));
  CHECK(world.requests.unsent(1).empty());
  CHECK(world.requests.wait(later, {"c"}));
  (void)world.sent(0);
  world.reply(0, c10d::Checked{false});
  CHECK(world.sent(1) == wait_of("/c"));  // it is idle at once
}

TEST_CASE("requests that were cancelled take no room of those that are not sent yet") {
  World world({.unsent_bytes_max = 100});
  const auto large = world.requests.set(later, "a", std::string(200, 'v'));
  CHECK_FALSE(world.requests.set(later, "b", "v"));
  CHECK(world.requests.cancel(*large, {{"cancelled"}, StoreErrorCode::interrupted}));
  CHECK(world.requests.set(later, "b", "v"));
  CHECK(world.sent(0) == bytes_of(c10d::Set{"/b", "v"}));
}

TEST_CASE("an empty value is read again, as the key may be gone since it was checked") {
  World world;
  CHECK(world.requests.find(later, "k"));
  const auto get = world.requests.get(later, "k");
  CHECK(world.requests.get(later, "empty"));
  (void)world.sent(0);
  for (int each = 0; each < 3; ++each) {
    world.reply(0, c10d::Checked{true});
    world.reply(0, c10d::Value{""});
  }
  CHECK(world.done().empty());
  CHECK(world.sent(0) == check_and_get("/k") + check_and_get("/k") + check_and_get("/empty"));
  for (int each = 0; each < 2; ++each) {
    world.reply(0, c10d::Checked{false});
    world.reply(0, c10d::Value{""});
  }
  world.reply(0, c10d::Checked{true});
  world.reply(0, c10d::Value{""});
  const auto missing = world.done();
  REQUIRE(missing.size() == 1);
  CHECK_FALSE(missing[0].result->text.has_value());
  CHECK(world.requests.in_progress() == 2);  // one waits, and one reads a last time
  CHECK(world.sent(0) == check_and_get("/empty"));
  world.reply(0, c10d::Checked{true});
  world.reply(0, c10d::Value{""});
  CHECK(world.only_done().result->text == "");
  CHECK(world.requests.cancel(*get, {{"cancelled"}, StoreErrorCode::interrupted}));
}

TEST_CASE("waits that time out before they get a connection leave nothing behind") {
  World world({.waits_max = 1});
  CHECK(world.requests.wait(later, {"a"}));
  CHECK(world.requests.wait(start, {"b"}));
  CHECK(world.requests.wait(later, {"c"}));
  (void)world.sent(0);
  for (int each = 0; each < 3; ++each) world.reply(0, c10d::Checked{false});
  CHECK(world.requests.waits_without_connection() == 2);
  world.requests.advance(start);
  CHECK(world.requests.waits_without_connection() == 1);
  world.requests.opened(1);
  (void)world.sent(1);
  world.reply(1, c10d::Waited{});
  CHECK(world.sent(1) == wait_of("/c"));
  CHECK(world.requests.waits_without_connection() == 0);
}

TEST_CASE("waits beyond the limit begin when others are over, and idle connections are closed") {
  World world({.waits_max = 2, .idle_max = 1});
  for (const char* key : {"a", "b", "c"}) CHECK(world.requests.wait(later, {key}));
  (void)world.sent(0);
  for (int each = 0; each < 3; ++each) world.reply(0, c10d::Checked{false});
  CHECK(world.opens() == std::vector<std::size_t>{1, 2});
  world.requests.opened(1);
  world.requests.opened(2);
  CHECK(world.sent(1) == wait_of("/a"));
  CHECK(world.sent(2) == wait_of("/b"));
  world.reply(2, c10d::Waited{});
  CHECK(world.done().size() == 1);
  CHECK(world.sent(2) == wait_of("/c"));
  world.reply(2, c10d::Waited{});
  CHECK(world.done().size() == 1);
  world.reply(1, c10d::Waited{});
  const auto actions = world.requests.take_actions();
  REQUIRE(actions.size() == 2);
  CHECK(std::get<Close>(actions[1]).connection == 1);
}

TEST_CASE("the loss of a wait's connection ends that wait, and the loss of the first one all") {
  World world;
  const auto a = world.requests.wait(later, {"a"});
  const auto b = world.requests.wait(later, {"b"});
  (void)world.sent(0);
  world.reply(0, c10d::Checked{false});
  world.reply(0, c10d::Checked{false});
  (void)world.opens();
  world.requests.opened(1);
  world.requests.opened(2);
  const StoreError closed{{"closed"}, StoreErrorCode::closed};
  world.requests.lost(1, closed);
  Done ended = world.only_done();
  CHECK(ended.id == *a);
  CHECK(ended.result.error() == closed);
  world.requests.lost(0, closed);
  ended = world.only_done();
  CHECK(ended.id == *b);
  CHECK(world.requests.add(later, "n", 1).error() == closed);
  CHECK(world.requests.in_progress() == 0);
}

TEST_CASE("bytes that are no reply end the client") {
  const auto ended = [](World& world) {
    const auto broken = world.requests.broken();
    REQUIRE(broken.has_value());
    CHECK(broken->code == StoreErrorCode::protocol);
    return broken->reason;
  };
  World unasked;
  unasked.hear(0, "x");
  CHECK(ended(unasked) == "unexpected data from the store");
  World wrong;
  CHECK(wrong.requests.find(later, "k"));
  (void)wrong.sent(0);
  wrong.hear(0, "x");
  CHECK(ended(wrong).starts_with("invalid reply from the store"));
  CHECK(code_of(wrong.only_done()) == StoreErrorCode::protocol);
}

TEST_CASE("limits reject a request before anything is queued") {
  World world({.requests_max = 2, .unsent_bytes_max = 100});
  CHECK(world.requests.set(later, std::string(9000, 'k'), "").error().code ==
        StoreErrorCode::too_large);
  CHECK(world.requests.unsent(0).empty());
  CHECK(world.requests.set(later, "a", std::string(200, 'v')));
  CHECK(world.requests.set(later, "b", "v").error().reason ==
        "219 bytes of requests are not sent yet, more than 100");
  (void)world.sent(0);
  CHECK(world.requests.add(later, "n", 1));
  CHECK(world.requests.add(later, "n", 1));
  CHECK(world.requests.add(later, "n", 1).error().reason ==
        "2 requests are in progress, the maximum");
}

TEST_CASE("without a connection, a request times out with the reason") {
  AsyncRequests requests("/");
  (void)requests.take_actions();
  requests.set_problem("Connection refused");
  CHECK(requests.get(start, "k"));
  requests.advance(start);
  const auto actions = requests.take_actions();
  REQUIRE(actions.size() == 1);
  CHECK(std::get<Done>(actions[0]).result.error().reason ==
        "no connection to the store yet: Connection refused");
}

TEST_CASE("a reply may come in any pieces") {
  World world;
  const auto find = world.requests.find(later, "k");
  (void)world.sent(0);
  std::string bytes;
  c10d::encode(c10d::Checked{true}, bytes);
  c10d::encode(c10d::Value{"value"}, bytes);
  for (const char byte : bytes) world.hear(0, std::string_view(&byte, 1));
  const Done found = world.only_done();
  CHECK(found.id == *find);
  CHECK(found.result->text == "value");
}

}  // namespace async_requests_test
