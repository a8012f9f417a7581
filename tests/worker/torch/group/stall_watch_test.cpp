// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/stall_watch.h"

#include <ATen/ops/zeros.h>
// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <doctest/doctest.h>

#include <future>
#include <memory>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"

namespace stall_watch_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// Two ranks' watches at one store, which look every few milliseconds.
struct Ranks {
  std::unique_ptr<StallWatch> watch(int rank, std::int64_t steps) {
    return std::make_unique<StallWatch>(
        store, StallWatch::Options{
                   .group = "0",
                   .rank = rank,
                   .ranks = {4, 5},
                   .steps = [steps] { return steps; },
                   .left_after = [this](c10d::Store&, int global) { return left(global); },
                   .say = [this, rank](const std::string& words) { said[rank].set_value(words); },
                   .timeout = 5ms});
  }
  std::optional<std::int64_t> left(int global) const {
    return global == gone ? std::optional<std::int64_t>(2) : std::nullopt;
  }
  std::string words_of(int rank) {
    auto future = said[rank].get_future();
    if (future.wait_for(20s) != std::future_status::ready) return "nothing";
    return future.get();
  }

  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  int gone = -1;
  std::promise<std::string> said[2];
};

}  // namespace

TEST_CASE("ranks that wait in different calls are told so while they wait, each of both") {
  Ranks ranks;
  const auto first = ranks.watch(0, 3);
  const auto second = ranks.watch(1, 2);
  first->begin("all_reduce(Float [2] on cpu) in step 3 of DistributedDataParallel(Toy)");
  second->begin("barrier");
  const std::string found =
      "the ranks wait in different calls: rank 4 calls all_reduce(Float [2] on cpu) in step 3 of "
      "DistributedDataParallel(Toy); rank 5 calls barrier; rank 5 is behind in "
      "DistributedDataParallel, at step 2 while others are at 3: ";
  const std::string words = ranks.words_of(0);
  INFO(words);
  CHECK(words.starts_with("rank 4 has waited for "));
  CHECK(words.find(" s in all_reduce(Float [2] on cpu) in step 3 of ") != std::string::npos);
  CHECK(words.find(found) != std::string::npos);
  CHECK(words.find("Join") != std::string::npos);
  CHECK(ranks.words_of(1).find(found) != std::string::npos);
}

TEST_CASE("a rank that has left is named by one that still waits") {
  Ranks ranks;
  ranks.gone = 5;
  const auto first = ranks.watch(0, 3);
  first->begin("all_reduce");
  const std::string words = ranks.words_of(0);
  INFO(words);
  CHECK(words.find("rank 5 calls nothing: it has left the group; rank 5 is behind in ") !=
        std::string::npos);
}

TEST_CASE("ranks that wait in the same call have nothing to tell") {
  Ranks ranks;
  const auto first = ranks.watch(0, 3);
  const auto second = ranks.watch(1, 3);
  CHECK(second->explain("all_reduce(Float [7] on cpu) in step 3 of a test") == "");
  CHECK(first->explain("all_reduce(Float [2] on cpu) in step 3 of a test") == "");
  CHECK(first->explain("barrier").starts_with("; the ranks wait in different calls: "));
}

TEST_CASE("who fails because a peer is gone was in a call, and believes who waited its time out") {
  const auto given_up = [](Ranks& ranks, const char* other) {
    ranks.watch(0, 3)->explain_lost_peer("barrier");
    ranks.gone = 4;  // it has left meanwhile
    return ranks.watch(1, 3)->explain(other);
  };
  Ranks parted;
  CHECK(given_up(parted, "all_reduce") ==
        "; the ranks wait in different calls: rank 4 calls barrier; rank 5 calls all_reduce");
  CHECK(parted.watch(0, 3)->explain_lost_peer("barrier").starts_with("; the ranks wait in"));
  // Rank 6 crashed, say, and found each of the others somewhere.
  Ranks crashed;
  CHECK(crashed.watch(0, 3)->explain_lost_peer("barrier") == "");
  CHECK(crashed.watch(1, 3)->explain_lost_peer("all_reduce") == "");
}

TEST_CASE(
    "who fails opens no other connection, which a round that is over would refuse for minutes") {
  struct Closed : c10d::HashStore {
    c10::intrusive_ptr<c10d::Store> clone() override { throw std::runtime_error("for 300 s"); }
  };
  Ranks ranks;
  ranks.store = c10::make_intrusive<Closed>();
  ranks.watch(0, 3)->explain_lost_peer("barrier");
  CHECK(
      ranks.watch(1, 3)->explain("all_reduce").starts_with("; the ranks wait in different calls"));
}

TEST_CASE("a wait that is over is taken away, and one that was given up stays for the others") {
  Ranks ranks;
  const auto becomes = [&](bool is_there) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (ranks.store->check({"cpprun/stalls/0/0"}) != is_there) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  auto watch = ranks.watch(0, 3);
  const std::uint64_t number = watch->begin("barrier");
  CHECK(becomes(true));
  watch->end(number);
  CHECK(becomes(false));
  CHECK(watch->explain("barrier") == "");
  watch.reset();
  CHECK(ranks.store->check({"cpprun/stalls/0/0"}));
}

TEST_CASE("when time is up the error names what the others wait in") {
  std::string words[2];
  CHECK(testing::on_two_ranks(
            [&](const ProcessGroup& group) {
              try {
                if (group.rank() == 0) return barrier(group);
                all_reduce(at::zeros({2}), group);
              } catch (const DistributedError& error) {
                words[group.rank()] = error.what();
              }
            },
            {.timeout = 500ms}) == "");
  // Who is the second to give up knows of both.
  const std::string found =
      "the ranks wait in different calls: rank 0 calls barrier; rank 1 calls all_reduce";
  INFO(words[0] << " / " << words[1]);
  CHECK((words[0].find(found) != std::string::npos || words[1].find(found) != std::string::npos));
}

}  // namespace stall_watch_test
