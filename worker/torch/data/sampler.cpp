// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace cpprun {
namespace {

// The number of the remaining `examples` for each replica.
std::int64_t share(const SamplerOptions& options, std::int64_t examples) {
  const std::int64_t replicas = options.replicas;
  return options.drop_last ? examples / replicas : (examples + replicas - 1) / replicas;
}

std::vector<std::int64_t> order(const SamplerOptions& options, std::int64_t epoch) {
  if (!options.shuffle) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(options.dataset_size));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // Python seeds its generator in the same way, and randperm is the same function.
  auto generator = at::detail::createCPUGenerator(options.seed + static_cast<std::uint64_t>(epoch));
  const at::Tensor permutation = at::randperm(options.dataset_size, generator, at::kLong);
  const auto* first = permutation.const_data_ptr<std::int64_t>();
  return {first, first + permutation.numel()};
}

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  if (options.dataset_size < 1) {
    throw std::invalid_argument(
        fmt::format("dataset_size must be at least 1, not {}", options.dataset_size));
  }
  if (options.rank < 0 || options.rank >= options.replicas) {
    throw std::invalid_argument(fmt::format("rank {} must be less than the number of replicas, {}",
                                            options.rank, options.replicas));
  }
  samples_per_rank_ = share(options, options.dataset_size);
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch, std::int64_t skip) const {
  if (skip < 0) throw std::invalid_argument(fmt::format("a sampler cannot skip {} samples", skip));
  const std::int64_t left = std::max<std::int64_t>(options_.dataset_size - skip, 0);
  const std::int64_t count = share(options_, left);
  const std::vector<std::int64_t> all = order(options_, epoch);
  std::vector<std::int64_t> mine;
  mine.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    // Past the end the order repeats as often as needed, so that every rank gets the same number.
    const auto at = static_cast<std::size_t>(skip + options_.rank + i * options_.replicas);
    mine.push_back(all[at % all.size()]);
  }
  return mine;
}

}  // namespace cpprun
