// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Prepares batches on a separate thread while the previous batch is trained on: a bounded queue
// with one producer and one consumer.

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
  bool drop_last = false;  // drop a last batch that is smaller
  int prefetch = 2;        // maximum number of prepared batches
};

class BatchLoader {
 public:
  // Creates the batch of these examples, on the loader's thread. next() rethrows its exceptions.
  using Load = std::function<Batch(const std::vector<std::int64_t>& indices)>;

  // One pass over `indices`, usually from DistributedSampler for one epoch.
  BatchLoader(std::vector<std::int64_t> indices, const LoaderOptions& options, Load load);
  // Waits at most for the batch under way.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch, in order; absent at the end. After an exception there are no further batches.
  std::optional<Batch> next();
  std::int64_t batches() const { return batches_; }

 private:
  struct Shared;
  static void make_batches(Shared& shared);

  std::int64_t batches_ = 0;
  std::unique_ptr<Shared> shared_;
};

}  // namespace cpprun
