#include "worker/torch/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

using namespace cpprun;
using Indices = std::vector<std::int64_t>;

// The expected indices were printed by torch.utils.data.DistributedSampler of PyTorch 2.13.

TEST_CASE("a shuffled epoch deals out Python's indices") {
  const DistributedSampler first({.dataset_size = 10, .replicas = 2, .rank = 0});
  const DistributedSampler second({.dataset_size = 10, .replicas = 2, .rank = 1});
  CHECK(first.indices(0) == Indices{4, 7, 3, 0, 6});
  CHECK(second.indices(0) == Indices{1, 5, 9, 8, 2});
}

TEST_CASE("seed and epoch choose the permutation as in Python") {
  const DistributedSampler sampler({.dataset_size = 1437, .replicas = 4, .rank = 2, .seed = 42});
  Indices indices = sampler.indices(5);
  CHECK(indices.size() == 360);
  CHECK(sampler.size() == 360);
  indices.resize(12);
  CHECK(indices == Indices{341, 876, 321, 809, 844, 1395, 942, 881, 984, 473, 167, 250});
}

TEST_CASE("a data set that does not divide is padded from its beginning") {
  const DistributedSampler shuffled({.dataset_size = 11, .replicas = 4, .rank = 3, .seed = 7});
  CHECK(shuffled.indices(2) == Indices{8, 1, 4});
  const DistributedSampler ordered(
      {.dataset_size = 11, .replicas = 4, .rank = 3, .shuffle = false});
  CHECK(ordered.indices(0) == Indices{3, 7, 0});
}

TEST_CASE("drop_last leaves the tail out") {
  const DistributedSampler uneven(
      {.dataset_size = 11, .replicas = 4, .rank = 3, .seed = 7, .drop_last = true});
  CHECK(uneven.indices(2) == Indices{8, 1});
  const DistributedSampler even(
      {.dataset_size = 12, .replicas = 4, .rank = 1, .seed = 1, .drop_last = true});
  CHECK(even.indices(0) == Indices{4, 0, 9});
}

TEST_CASE("more replicas than examples still get valid indices") {
  const DistributedSampler shuffled({.dataset_size = 2, .replicas = 8, .rank = 7});
  CHECK(shuffled.indices(0) == Indices{1});
  const DistributedSampler ordered({.dataset_size = 2, .replicas = 8, .rank = 7, .shuffle = false});
  CHECK(ordered.indices(0) == Indices{1});
}

TEST_CASE("all ranks together see every example of an epoch once") {
  Indices all;
  for (int rank = 0; rank < 4; ++rank) {
    const DistributedSampler sampler({.dataset_size = 100, .replicas = 4, .rank = rank});
    const Indices mine = sampler.indices(3);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  CHECK(all.size() == 100);
}

TEST_CASE("options that contradict each other are refused") {
  CHECK_THROWS_WITH_AS(DistributedSampler({.dataset_size = 0}),
                       "a sampler needs examples, dataset_size is 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(DistributedSampler({.dataset_size = 5, .replicas = 2, .rank = 2}),
                       "rank 2 is not below the number of replicas, 2", std::invalid_argument);
}
