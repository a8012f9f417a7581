// SPDX-License-Identifier: BSD-3-Clause
// The linearizability checker alone: which histories it rejects, and which it accepts.

#include "tests/rendezvous/store/linearizable.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace linearizable_test {

using namespace cpprun;

namespace {

using Kind = StoreOperation::Kind;
using History = std::vector<StoreOperation>;

StoreOperation add(int client, std::uint64_t began, std::uint64_t ended, std::int64_t sum) {
  return {.kind = Kind::add,
          .delta = 1,
          .client = client,
          .began = began,
          .ended = ended,
          .is_answered = true,
          .number = sum};
}

StoreOperation get(int client, std::uint64_t began, std::uint64_t ended, std::string value) {
  return {.client = client,
          .began = began,
          .ended = ended,
          .is_answered = true,
          .told = std::move(value)};
}

// Never answered, and neither was any later request.
StoreOperation lost(Kind kind, int client, std::uint64_t began, std::string value) {
  return {.kind = kind, .value = std::move(value), .delta = 1, .client = client, .began = began};
}

StoreOperation pop(int client, std::uint64_t began, std::int64_t length, std::string value) {
  return {.kind = Kind::pop,
          .client = client,
          .began = began,
          .ended = began + 1,
          .is_answered = true,
          .told = std::move(value),
          .number = length};
}

bool is_possible(const History& history, const std::optional<KeyAtEnd>& at_end = {}) {
  return objection_to(history, at_end).empty();
}

}  // namespace

TEST_CASE("a counter has only one valid order, whatever overlaps") {
  const History good = {add(1, 1, 6, 2), add(2, 2, 5, 1), get(3, 7, 8, "2"),
                        lost(Kind::add, 4, 10, "")};
  CHECK(is_possible(good));
  CHECK(is_possible(good, KeyAtEnd{.value = "2"}));
  CHECK(is_possible(good, KeyAtEnd{.value = "3"}));  // the last one took effect, or did not
  CHECK(objection_to(good, KeyAtEnd{.value = "4"}) ==
        "nothing explains what it is in the end: \"4\", 0");
  CHECK_FALSE(is_possible(good, KeyAtEnd{.value = "1"}));
  History twice = good;
  twice[1].number = 2;
  CHECK_FALSE(is_possible(twice));
  History late = good;
  late[2].told = "1";
  CHECK_FALSE(is_possible(late));
  late[2].told = "9";
  CHECK_FALSE(is_possible(late));
  History overtaken = good;
  overtaken[1] = add(2, 9, 12, 1);
  CHECK_FALSE(is_possible(overtaken));
}

TEST_CASE("an operation without an answer may have taken effect at any time, or never") {
  const StoreOperation set = lost(Kind::set, 1, 1, "x");
  CHECK(is_possible({set, get(2, 3, 4, "x")}));
  CHECK(is_possible({set, get(2, 3, 4, ""), get(2, 5, 6, "x")}));
  CHECK(is_possible({set, get(2, 3, 4, "")}));
  CHECK_FALSE(is_possible({set, get(2, 3, 4, "x"), get(2, 5, 6, "")}));
  StoreOperation ended = set;
  ended.ended = 2;
  CHECK_FALSE(is_possible({ended, get(2, 3, 4, "")}));
}

TEST_CASE("requests of one connection are carried out in their order") {
  // Of two connections either may have been first; the requests of one have an order.
  CHECK(is_possible({lost(Kind::set, 1, 1, "x"), lost(Kind::set, 2, 2, "y"), get(3, 3, 4, "y"),
                     get(3, 5, 6, "x")}));
  CHECK_FALSE(is_possible({lost(Kind::set, 1, 1, "x"), lost(Kind::set, 1, 2, "y"),
                           get(3, 3, 4, "y"), get(3, 5, 6, "x")}));
}

TEST_CASE("a log has every appended entry once, and in one order") {
  const History log = {lost(Kind::append, 1, 1, "a."), lost(Kind::append, 2, 2, "b."),
                       get(3, 3, 4, "b.")};
  CHECK(is_possible(log, KeyAtEnd{.value = "b."}));
  CHECK(is_possible(log, KeyAtEnd{.value = "b.a."}));
  CHECK_FALSE(is_possible(log, KeyAtEnd{.value = "a.b."}));
  CHECK_FALSE(is_possible(log, KeyAtEnd{.value = "b.a.a."}));
}

TEST_CASE("values that are compared, deleted and waited for") {
  StoreOperation swap = lost(Kind::compare_set, 1, 1, "new");
  swap.expected = "old";
  swap.ended = 2;
  swap.is_answered = true;
  swap.told = "old";  // PyTorch's answer if there is no value
  CHECK(is_possible({swap}, KeyAtEnd{}));
  CHECK_FALSE(is_possible({swap}, KeyAtEnd{.value = "new"}));
  swap.told = "new";
  CHECK_FALSE(is_possible({swap}));

  StoreOperation wait = lost(Kind::wait, 1, 1, "");
  wait.ended = 4;
  wait.is_answered = true;
  CHECK_FALSE(is_possible({wait}));
  CHECK(is_possible({wait, lost(Kind::set, 2, 2, "x")}));
  CHECK_FALSE(is_possible({wait, lost(Kind::set, 2, 5, "x")}));

  StoreOperation erase = lost(Kind::erase, 1, 6, "");
  erase.ended = 7;
  erase.is_answered = true;
  erase.number = 1;
  CHECK_FALSE(is_possible({erase}));
  CHECK(is_possible({lost(Kind::set, 2, 2, "x"), erase, get(2, 8, 9, "")}));
}

TEST_CASE("every entry of a queue is popped once, the oldest first") {
  const StoreOperation first = lost(Kind::push, 1, 1, "x");
  const StoreOperation second = lost(Kind::push, 1, 2, "y");
  CHECK(is_possible({first, second, pop(2, 3, 2, "x"), pop(2, 5, 1, "y"), pop(2, 7, 0, "")},
                    KeyAtEnd{.length = 0}));
  CHECK_FALSE(is_possible({first, second, pop(2, 3, 2, "y")}));
  CHECK_FALSE(is_possible({first, second, pop(2, 3, 2, "x"), pop(2, 5, 1, "x")}));
  CHECK_FALSE(is_possible({first, pop(2, 3, 1, "x")}, KeyAtEnd{.length = 1}));
}

TEST_CASE("a queue with many concurrent pushes is checked without trying every order") {
  History history;
  for (int client = 1; client <= 20; ++client) {
    history.push_back(lost(Kind::push, client, static_cast<std::uint64_t>(client),
                           fmt::format("entry {}", client)));
  }
  std::uint64_t moment = 100;
  for (int taken = 0; taken < 10; ++taken, moment += 2) {
    history.push_back(pop(99, moment, 20 - taken, fmt::format("entry {}", 2 * taken + 1)));
  }
  CHECK(is_possible(history, KeyAtEnd{.length = 10}));
  CHECK(objection_to(history, KeyAtEnd{.length = 9}).find("in the end") != std::string::npos);
  history.push_back(pop(98, moment, 10, "entry 1"));
  CHECK(objection_to(history, {}).find("POP of connection 98") != std::string::npos);
}

}  // namespace linearizable_test
