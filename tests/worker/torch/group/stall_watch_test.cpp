// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/stall_watch.h"

#include <ATen/ops/zeros.h>
// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>

#include "tests/worker/two_ranks.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/group/bounds.h"

namespace stall_watch_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// The watches of two ranks at one store, which poll every few milliseconds.
struct Ranks {
  std::unique_ptr<StallWatch> watch(int rank, std::int64_t steps) {
    return watch(rank, [steps] { return steps; });
  }
  std::unique_ptr<StallWatch> watch(int rank, std::function<std::int64_t()> steps) {
    return std::make_unique<StallWatch>(
        store, StallWatch::Options{
                   .group = "0",
                   .rank = rank,
                   .ranks = {4, 5},
                   .steps = std::move(steps),
                   .left_after = [this](c10d::Store&, int global) { return left(global); },
                   .say = [this, rank](const std::string& words) { said[rank].set_value(words); },
                   .interval = 5ms,
                   .timeout = timeout,
                   .has_watch = [this](c10d::Store&, int global) { return global != python; }});
  }
  // Whether rank 0 has written that it waits.
  bool becomes(bool is_there) const {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (store->check({"cpprun/stalls/0/0"}) != is_there) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
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
  int python = -1;
  std::chrono::milliseconds timeout{};
  std::promise<std::string> said[2];
};

// An operation on the GPU, as long as anything refers to it.
struct QueuedWork {
  StallWatch::Finished finished() {
    return [state = state] {
      ++state->questions;
      if (state->fails) throw std::runtime_error("CUDA error: driver shutting down");
      return state->done.load();
    };
  }
  bool is_kept() const { return state.use_count() > 1; }

  struct State {
    std::atomic<bool> done = false;
    std::atomic<bool> fails = false;
    std::atomic<int> questions = 0;
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};

bool becomes_free(const QueuedWork& work) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (work.is_kept()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("ranks whose GPUs wait in different operations are reported") {
  Ranks ranks;
  QueuedWork first_work;
  QueuedWork second_work;
  const auto first = ranks.watch(0, 3);
  const auto second = ranks.watch(1, 3);
  first->watch("all_reduce", first_work.finished());
  second->watch("broadcast", second_work.finished());
  const std::string words = ranks.words_of(0);
  INFO(words);
  CHECK(words.starts_with("rank 4 has waited for "));
  CHECK(
      words.ends_with(" s in all_reduce: the ranks wait in different calls: rank 4 calls "
                      "all_reduce; rank 5 calls broadcast"));
}

TEST_CASE("an operation on the GPU counts with the step in which it was queued") {
  Ranks ranks;
  QueuedWork work;
  std::atomic<std::int64_t> steps = 3;
  const auto first = ranks.watch(0, [&steps] { return steps.load(); });
  first->watch("all_reduce", work.finished());
  steps = 5;  // the program is ahead of the GPU
  REQUIRE(ranks.becomes(true));
  CHECK(ranks.store->get_to_str("cpprun/stalls/0/0") == "1 3 all_reduce");
}

TEST_CASE("a finished operation on the GPU is dropped when the next one is queued") {
  Ranks ranks;
  const auto watch = std::make_unique<StallWatch>(
      ranks.store, StallWatch::Options{.group = "0",
                                       .rank = 0,
                                       .ranks = {4, 5},
                                       .steps = [] { return std::int64_t{0}; },
                                       .left_after = nullptr,
                                       .say = nullptr,
                                       .interval = std::chrono::hours(1)});
  std::vector<QueuedWork> works(3);
  for (auto& each : works) watch->watch("all_reduce", each.finished());
  CHECK(works[0].is_kept());
  CHECK(works[0].state->questions == 2);
  CHECK(works[1].state->questions == 0);  // it cannot end before the first
  works[0].state->done = true;
  works[1].state->fails = true;  // it has ended too
  QueuedWork next;
  watch->watch("all_reduce", next.finished());
  CHECK_FALSE(works[0].is_kept());
  CHECK_FALSE(works[1].is_kept());
  CHECK(works[2].is_kept());
  CHECK(next.is_kept());
}

TEST_CASE("a finished operation on the GPU is dropped without another call") {
  Ranks ranks;
  const auto watch = ranks.watch(0, 3);
  QueuedWork work;
  watch->watch("all_reduce", work.finished());
  REQUIRE(ranks.becomes(true));
  work.state->done = true;
  CHECK(becomes_free(work));
  CHECK(ranks.becomes(false));
}

TEST_CASE("the number of watched operations on the GPU is limited") {
  Ranks ranks;
  const auto watch = ranks.watch(0, 3);
  std::vector<QueuedWork> works(bounds::worker_stall_queue_max + 1);
  for (auto& each : works) watch->watch("all_reduce", each.finished());
  CHECK(works[bounds::worker_stall_queue_max - 1].is_kept());
  CHECK_FALSE(works[bounds::worker_stall_queue_max].is_kept());
}

TEST_CASE("a closed watch polls nothing, keeps no operation and accepts no other") {
  Ranks ranks;
  const auto watch = ranks.watch(0, 3);
  QueuedWork work;
  watch->watch("all_reduce", work.finished());
  REQUIRE(ranks.becomes(true));
  watch->close();
  CHECK_FALSE(work.is_kept());
  CHECK_FALSE(ranks.store->check({"cpprun/stalls/0/0"}));
  const int questions = work.state->questions;
  watch->watch("all_reduce", work.finished());
  watch->end(watch->begin("barrier"));
  CHECK_FALSE(work.is_kept());
  CHECK(work.state->questions == questions);
}

TEST_CASE("a watch that was abandoned keeps no operation") {
  Ranks ranks;
  const auto watch = ranks.watch(0, 3);
  QueuedWork work;
  watch->watch("all_reduce", work.finished());
  watch->abandon();
  CHECK(becomes_free(work));
}

TEST_CASE("after half the time limit, a rank that has not come is named") {
  Ranks ranks;
  ranks.timeout = 100ms;
  QueuedWork work;
  const auto first = ranks.watch(0, 3);
  const auto second = ranks.watch(1, 3);
  first->watch("all_reduce", work.finished());
  const std::string words = ranks.words_of(0);
  INFO(words);
  CHECK(words.ends_with(" s in all_reduce: rank 5 is in no operation of this group"));
  CHECK(first->explain("all_reduce") == "; rank 5 is in no operation of this group");
}

TEST_CASE("a Python rank is not missed, because it reports nothing") {
  Ranks ranks;
  ranks.timeout = 100ms;
  ranks.python = 5;
  CHECK(ranks.watch(0, 3)->explain("all_reduce") == "");
}

TEST_CASE("ranks that wait in different calls get a message while they wait, about both calls") {
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

TEST_CASE("a waiting rank names the rank that has left") {
  Ranks ranks;
  ranks.gone = 5;
  const auto first = ranks.watch(0, 3);
  first->begin("all_reduce");
  const std::string words = ranks.words_of(0);
  INFO(words);
  CHECK(words.find("rank 5 calls nothing: it has left the group; rank 5 is behind in ") !=
        std::string::npos);
}

TEST_CASE("ranks that wait in the same call report nothing") {
  Ranks ranks;
  const auto first = ranks.watch(0, 3);
  const auto second = ranks.watch(1, 3);
  CHECK(second->explain("all_reduce(Float [7] on cpu) in step 3 of a test") == "");
  CHECK(first->explain("all_reduce(Float [2] on cpu) in step 3 of a test") == "");
  CHECK(first->explain("barrier").starts_with("; the ranks wait in different calls: "));
}

TEST_CASE("the calls of ranks that lost a peer are reported only after a rank has timed out") {
  const auto given_up = [](Ranks& ranks, const char* other) {
    ranks.watch(0, 3)->explain_lost_peer("barrier");
    ranks.gone = 4;  // it has left meanwhile
    return ranks.watch(1, 3)->explain(other);
  };
  Ranks parted;
  CHECK(given_up(parted, "all_reduce") ==
        "; the ranks wait in different calls: rank 4 calls barrier; rank 5 calls all_reduce");
  CHECK(parted.watch(0, 3)->explain_lost_peer("barrier").starts_with("; the ranks wait in"));
  // Rank 6 crashed, for example, when each of the others was in some call.
  Ranks crashed;
  CHECK(crashed.watch(0, 3)->explain_lost_peer("barrier") == "");
  CHECK(crashed.watch(1, 3)->explain_lost_peer("all_reduce") == "");
}

TEST_CASE(
    "a failing rank opens no other connection, which a finished round would refuse for "
    "minutes") {
  struct Closed : c10d::HashStore {
    c10::intrusive_ptr<c10d::Store> clone() override { throw std::runtime_error("for 300 s"); }
  };
  Ranks ranks;
  ranks.store = c10::make_intrusive<Closed>();
  ranks.watch(0, 3)->explain_lost_peer("barrier");
  CHECK(
      ranks.watch(1, 3)->explain("all_reduce").starts_with("; the ranks wait in different calls"));
}

TEST_CASE("a finished wait is removed, and a wait that timed out stays for the others") {
  Ranks ranks;
  auto watch = ranks.watch(0, 3);
  const std::uint64_t number = watch->begin("barrier");
  CHECK(ranks.becomes(true));
  watch->end(number);
  CHECK(ranks.becomes(false));
  CHECK(watch->explain("barrier") == "");
  watch.reset();
  CHECK(ranks.store->check({"cpprun/stalls/0/0"}));
}

TEST_CASE("the error of a timeout names the calls in which the others wait") {
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
  // The second rank to give up knows both calls.
  const std::string found =
      "the ranks wait in different calls: rank 0 calls barrier; rank 1 calls all_reduce";
  INFO(words[0] << " / " << words[1]);
  CHECK((words[0].find(found) != std::string::npos || words[1].find(found) != std::string::npos));
}

}  // namespace stall_watch_test
