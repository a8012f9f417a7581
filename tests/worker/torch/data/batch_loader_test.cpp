// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/batch_loader.h"

#include <ATen/ops/full.h>
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace batch_loader_test {

using namespace cpprun;
using Indices = std::vector<std::int64_t>;

namespace {

Indices upto(std::int64_t count) {
  Indices indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// A batch that contains the indices of its examples.
Batch first_and_count(const Indices& indices) {
  return {.inputs = at::full({1}, indices.front(), at::kLong),
          .targets = at::full({1}, static_cast<std::int64_t>(indices.size()), at::kLong)};
}

}  // namespace

TEST_CASE("batches come in order, the last one smaller, and then none") {
  BatchLoader loader(upto(10), {.batch_size = 4}, first_and_count);
  CHECK(loader.batches() == 3);
  CHECK(loader.next()->inputs.item<int>() == 0);
  CHECK(loader.next()->inputs.item<int>() == 4);
  const auto last = loader.next();
  REQUIRE(last);
  CHECK(last->inputs.item<int>() == 8);
  CHECK(last->targets.item<int>() == 2);
  CHECK_FALSE(loader.next());
  CHECK_FALSE(loader.next());
}

TEST_CASE("a smaller last batch can be dropped") {
  BatchLoader loader(upto(10), {.batch_size = 4, .drop_last = true}, first_and_count);
  CHECK(loader.batches() == 2);
  CHECK(loader.next());
  CHECK(loader.next());
  CHECK_FALSE(loader.next());
}

TEST_CASE("at most the allowed number of batches is prepared") {
  std::atomic<int> made{0};
  BatchLoader loader(upto(100), {.batch_size = 1, .prefetch = 2}, [&made](const Indices& indices) {
    ++made;
    return first_and_count(indices);
  });
  CHECK(loader.next());
  CHECK(loader.next());
  // Two taken, two ready, and one waiting for a free slot.
  CHECK(made.load() <= 5);
}

TEST_CASE("an exception comes after the batches before it, once, and ends the pass") {
  BatchLoader loader(upto(3), {.batch_size = 1}, [](const Indices& indices) {
    if (indices.front() == 1) throw std::runtime_error("image 1 is damaged");
    return first_and_count(indices);
  });
  CHECK(loader.next());
  CHECK_THROWS_WITH_AS(static_cast<void>(loader.next()), "image 1 is damaged", std::runtime_error);
  CHECK_FALSE(loader.next());
}

TEST_CASE("several threads prepare batches at once, and these come in order") {
  std::atomic<int> loading{0};
  std::atomic<bool> has_met{false};
  BatchLoader loader(upto(50), {.batch_size = 1, .prefetch = 1, .threads = 3},
                     [&](const Indices& indices) {
                       ++loading;
                       // Until two have met once, every thread waits for another one.
                       while (loading < 2 && !has_met) std::this_thread::yield();
                       has_met = true;
                       --loading;
                       return first_and_count(indices);
                     });
  for (int i = 0; i < 50; ++i) CHECK(loader.next()->inputs.item<int>() == i);
  CHECK_FALSE(loader.next());
}

TEST_CASE("the exception of the first damaged batch comes, also with several threads") {
  BatchLoader loader(upto(20), {.batch_size = 1, .prefetch = 4, .threads = 4},
                     [](const Indices& indices) {
                       if (indices.front() >= 7) {
                         throw std::runtime_error(std::to_string(indices.front()));
                       }
                       return first_and_count(indices);
                     });
  for (int i = 0; i < 7; ++i) CHECK(loader.next()->inputs.item<int>() == i);
  CHECK_THROWS_WITH_AS(static_cast<void>(loader.next()), "7", std::runtime_error);
  CHECK_FALSE(loader.next());
}

TEST_CASE("without a GPU, pinned memory is ordinary memory") {
  BatchLoader loader(upto(2), {.batch_size = 2, .pin_memory = true}, first_and_count);
  CHECK(loader.next()->inputs.item<int>() == 0);
}

TEST_CASE("a loader that is destroyed early ends its thread") {
  const std::thread::id here = std::this_thread::get_id();
  std::atomic<bool> elsewhere{false};
  {
    BatchLoader loader(upto(1000), {.batch_size = 1}, [&](const Indices& indices) {
      elsewhere = std::this_thread::get_id() != here;
      return first_and_count(indices);
    });
    CHECK(loader.next());
  }
  CHECK(elsewhere.load());
}

TEST_CASE("an empty data set ends at once") {
  BatchLoader loader({}, {.batch_size = 4}, first_and_count);
  CHECK(loader.batches() == 0);
  CHECK_FALSE(loader.next());
}

TEST_CASE("a loader without a size is rejected") {
  CHECK_THROWS_AS(BatchLoader({}, {.batch_size = 0}, first_and_count), std::invalid_argument);
  CHECK_THROWS_AS(BatchLoader({}, {.prefetch = 0}, first_and_count), std::invalid_argument);
  CHECK_THROWS_AS(BatchLoader({}, {.threads = 0}, first_and_count), std::invalid_argument);
}

}  // namespace batch_loader_test
