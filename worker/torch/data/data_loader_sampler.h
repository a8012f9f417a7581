// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/data/samplers/base.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "worker/torch/data/sampler.h"

namespace cpprun {

// DistributedSampler for torch::data::make_data_loader. Each begin() of the data loader starts the
// next epoch, so that no set_epoch() is needed:
//
//   auto loader = torch::data::make_data_loader(
//       dataset.map(torch::data::transforms::Stack<>()),
//       cpprun::DataLoaderSampler({.dataset_size = size, .replicas = world_size, .rank = rank}),
//       /*batch_size=*/64);
//   for (int epoch = 0; epoch < epochs; ++epoch) for (auto& batch : *loader) …
class DataLoaderSampler : public torch::data::samplers::Sampler<> {
 public:
  // A run that resumes passes its epoch, and the samples of it that all ranks have already seen.
  // Throws std::invalid_argument if the options are inconsistent.
  explicit DataLoaderSampler(const SamplerOptions& options, std::int64_t first_epoch = 0,
                             std::int64_t skip = 0)
      : options_(options), epoch_(first_epoch - 1), skip_(skip) {
    (void)DistributedSampler(options).indices(first_epoch, skip);  // throws
  }

  // Starts the next epoch, with another size of the data set if there is one.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override {
    if (new_size) options_.dataset_size = static_cast<std::int64_t>(*new_size);
    ++epoch_;
    skipped_ = std::exchange(skip_, 0);
    indices_ = DistributedSampler(options_).indices(epoch_, skipped_);
    taken_ = 0;
    started_ = true;
  }

  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override {
    if (!started_) reset();
    const std::size_t count = std::min(batch_size, indices_.size() - taken_);
    if (count == 0) return std::nullopt;
    const auto first = indices_.begin() + static_cast<std::ptrdiff_t>(taken_);
    taken_ += count;
    return std::vector<std::size_t>(first, first + static_cast<std::ptrdiff_t>(count));
  }

  std::int64_t epoch() const { return std::max<std::int64_t>(epoch_, 0); }

  // The epoch and the position in it. After load() the next begin() continues there. For loops that
  // own the sampler: a data loader has a copy, which also runs ahead of the training.
  void save(torch::serialize::OutputArchive& archive) const override {
    archive.write("epoch", torch::tensor(started_ ? epoch_ : epoch_ + 1, torch::kLong), true);
    const auto taken = static_cast<std::int64_t>(taken_) * options_.replicas;
    const auto seen = started_ ? skipped_ + taken : skip_;
    archive.write("seen", torch::tensor(seen, torch::kLong), true);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::Tensor epoch;
    torch::Tensor seen;
    archive.read("epoch", epoch, true);
    archive.read("seen", seen, true);
    epoch_ = epoch.item<std::int64_t>() - 1;
    skip_ = seen.item<std::int64_t>();
    started_ = false;
  }

 private:
  SamplerOptions options_;
  std::int64_t epoch_;        // the current one; before the first reset(), the one before
  std::int64_t skip_;         // of the next epoch
  std::int64_t skipped_ = 0;  // of the current one
  bool started_ = false;
  std::vector<std::int64_t> indices_;
  std::size_t taken_ = 0;
};

}  // namespace cpprun
