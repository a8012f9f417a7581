// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Prepares batches on a thread of its own while the previous one is trained on: a bounded queue
// between one producer and one consumer.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace cpprun {

struct Batch {
  at::Tensor inputs;
  at::Tensor targets;
};

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool drop_last = false;  // leave out a last batch that is smaller
  int prefetch = 2;        // batches that may lie ready
};

class BatchLoader {
 public:
  // Makes the batch of these examples; runs on the loader's thread. What it throws, next() throws.
  using Load = std::function<Batch(const std::vector<std::int64_t>& indices)>;

  // One pass over `indices`, usually a DistributedSampler's for one epoch.
  BatchLoader(std::vector<std::int64_t> indices, const LoaderOptions& options, Load load);
  // Waits for the batch that is being made, no longer.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch, in order; absent at the end. After an exception there is no further batch.
  std::optional<Batch> next();
  std::int64_t batches() const { return batches_; }

 private:
  struct Shared;
  static void make_batches(Shared& shared);

  std::int64_t batches_ = 0;
  std::unique_ptr<Shared> shared_;
};

}  // namespace cpprun
