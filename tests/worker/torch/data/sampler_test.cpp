// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

namespace sampler_test {

using namespace cpprun;
using Indices = std::vector<std::int64_t>;

// The expected indices were printed by torch.utils.data.DistributedSampler of PyTorch 2.13.

TEST_CASE("a shuffled epoch has the same indices as in Python") {
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

TEST_CASE("drop_last drops the tail") {
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

TEST_CASE("options that contradict each other are rejected") {
  CHECK_THROWS_WITH_AS(DistributedSampler({.dataset_size = 0}),
                       "dataset_size must be at least 1, not 0", std::invalid_argument);
  CHECK_THROWS_WITH_AS(DistributedSampler({.dataset_size = 5, .replicas = 2, .rank = 2}),
                       "rank 2 must be less than the number of replicas, 2", std::invalid_argument);
}

TEST_CASE("examples that were used are skipped, and the rest is the end of the whole epoch") {
  const DistributedSampler sampler({.dataset_size = 1437, .replicas = 4, .rank = 2, .seed = 42});
  const Indices whole = sampler.indices(5);
  CHECK(sampler.indices(5, 4 * 100) == Indices(whole.begin() + 100, whole.end()));
  CHECK(sampler.indices(5, 1437).empty());
  CHECK(sampler.indices(5, 1440).empty());
}

TEST_CASE("an epoch that resumes with another world size shows every example once") {
  Indices all;
  // Two ranks have used 30 examples each; three continue.
  for (int rank = 0; rank < 2; ++rank) {
    const Indices mine =
        DistributedSampler({.dataset_size = 99, .replicas = 2, .rank = rank}).indices(3);
    all.insert(all.end(), mine.begin(), mine.begin() + 30);
  }
  for (int rank = 0; rank < 3; ++rank) {
    const Indices mine =
        DistributedSampler({.dataset_size = 99, .replicas = 3, .rank = rank}).indices(3, 60);
    CHECK(mine.size() == 13);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  CHECK(all.size() == 99);
}

TEST_CASE("a rest that does not divide is padded, or dropped, like a whole epoch") {
  const SamplerOptions padded{.dataset_size = 10, .replicas = 4, .rank = 3, .shuffle = false};
  CHECK(DistributedSampler(padded).indices(0, 5) == Indices{8, 2});
  SamplerOptions dropped = padded;
  dropped.drop_last = true;
  CHECK(DistributedSampler(dropped).indices(0, 5) == Indices{8});
}

TEST_CASE("a sampler does not go back beyond the start of the epoch") {
  const DistributedSampler sampler({.dataset_size = 10});
  CHECK_THROWS_WITH_AS(static_cast<void>(sampler.indices(0, -1)),
                       "a sampler cannot skip -1 samples", std::invalid_argument);
}

}  // namespace sampler_test
