// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/meeting_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace listener_search_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// A network in simulated time. Each address answers after a delay of its own, or never.
struct Network {
  struct Address {
    Duration answers_after;
    std::string answer;  // empty: there is a listener
  };
  std::vector<Address> addresses;
  std::string unresolved;
  TimePoint now{};
  Duration pause = 100ms;
  std::vector<std::size_t> asked;

  std::string search(Duration timeout) {
    return search_listener({.now = [this] { return now; },
                            .resolve = [this]() -> Result<std::size_t> {
                              if (!unresolved.empty()) return failure(unresolved);
                              return addresses.size();
                            },
                            .reach =
                                [this](std::size_t which, TimePoint end) {
                                  asked.push_back(which);
                                  const Address& address = addresses.at(which);
                                  const bool in_time = now + address.answers_after <= end;
                                  now = std::max(now, std::min(end, now + address.answers_after));
                                  return in_time ? address.answer : "timed out";
                                },
                            .pause = [this](TimePoint end) { now = std::min(end, now + pause); }},
                           TimePoint{} + timeout);
  }
};

constexpr Duration never = 1000h;

}  // namespace

TEST_CASE("a search for a listener keeps its deadline, however many addresses drop packets") {
  for (const std::size_t count : {1U, 2U, 3U, 9U}) {
    Network network;
    network.addresses.assign(count, {never, ""});
    CHECK(network.search(4s) == "timed out");
    CHECK(network.now >= TimePoint{} + 4s);
    CHECK(network.now <= TimePoint{} + 4s + count * 1ms);
    // None of them was skipped.
    for (std::size_t each = 0; each < count; ++each) {
      CHECK(std::count(network.asked.begin(), network.asked.end(), each) > 0);
    }
  }
}

TEST_CASE("an address that refuses is retried until the deadline, and no longer") {
  Network network;
  network.addresses = {{0s, "refused"}};
  CHECK(network.search(1s) == "refused");
  CHECK(network.now == TimePoint{} + 1s);
  CHECK(network.asked.size() == 11);
}

TEST_CASE("a listener at the last of several addresses is found without waiting for the others") {
  Network network;
  network.addresses = {{never, ""}, {0s, "refused"}, {1s, ""}};
  CHECK(network.search(60s).empty());
  CHECK(network.now == TimePoint{} + 31s);
  CHECK(network.asked == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("a name that does not resolve may do so later, until the deadline") {
  Network network;
  network.unresolved = "unknown name";
  CHECK(network.search(1s) == "unknown name");
  CHECK(network.now == TimePoint{} + 1s);
  CHECK(network.asked.empty());
}

TEST_CASE("a deadline that has passed still leaves one attempt at each address") {
  Network network;
  network.addresses = {{0s, "refused"}, {0s, ""}};
  CHECK(network.search(-1s).empty());
  CHECK(network.asked == std::vector<std::size_t>{0, 1});
}

}  // namespace listener_search_test
