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
  bool drop_last = false;  // drop the indivisible tail instead of repeating examples
};

// Divides a data set among the ranks. Each epoch has a new permutation, the same on all ranks; rank
// r takes every replicas-th index of it, starting at r. The indices are exactly those of
// torch.utils.data.DistributedSampler with the same options.
class DistributedSampler {
 public:
  // Throws std::invalid_argument if the options are inconsistent.
  explicit DistributedSampler(const SamplerOptions& options);

  // This rank's share of the epoch; all shares have the same length. `skip`: samples of the epoch
  // that all ranks together have already seen, possibly with another number of replicas. The rest
  // of the permutation is divided among the ranks; it is empty if all have been seen.
  std::vector<std::int64_t> indices(std::int64_t epoch, std::int64_t skip = 0) const;
  std::int64_t size() const { return samples_per_rank_; }

 private:
  SamplerOptions options_;
  std::int64_t samples_per_rank_ = 0;
};

}  // namespace cpprun
