// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace cpprun {

struct SamplerOptions {
  std::int64_t dataset_size = 0;
  int replicas = 1;
  int rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // leave out the tail that does not divide, instead of repeating examples
};

// Divides a data set among the ranks: each epoch has a new permutation that all ranks agree on, and
// rank r takes every replicas-th index of it, from r on. The indices are exactly those of
// torch.utils.data.DistributedSampler for the same options.
class DistributedSampler {
 public:
  // Throws std::invalid_argument if the options contradict each other.
  explicit DistributedSampler(const SamplerOptions& options);

  // This rank's share of the epoch; all shares are equally long. `skip` leaves out what all ranks
  // together have already seen of the epoch, even with another number of replicas: the rest of its
  // order is divided anew. Nothing is left if that is all of it.
  std::vector<std::int64_t> indices(std::int64_t epoch, std::int64_t skip = 0) const;
  std::int64_t size() const { return samples_per_rank_; }

 private:
  SamplerOptions options_;
  std::int64_t samples_per_rank_ = 0;
};

}  // namespace cpprun
