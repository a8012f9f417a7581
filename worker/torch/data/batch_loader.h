// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Prepares batches on threads of its own while the previous batch is trained on.

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
  int prefetch = 2;        // maximum number of prepared batches for each thread
  int threads = 1;         // with more than one, `load` is called by several at once
  // If there is a GPU: in page-locked memory, so that copies to the GPU run beside other work.
  bool pin_memory = false;
};

class BatchLoader {
 public:
  // Creates the batch of these examples, on a thread of the loader, whose current GPU is that of
  // the thread that created the loader. next() rethrows its exceptions. For random numbers, use a
  // generator of your own: all threads of a process share LibTorch's.
  using Load = std::function<Batch(const std::vector<std::int64_t>& indices)>;

  // One pass over `indices`, usually from DistributedSampler for one epoch. Throws
  // std::invalid_argument if an option is below 1.
  BatchLoader(std::vector<std::int64_t> indices, const LoaderOptions& options, Load load);
  // Waits at most for the batches under way.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch, in order; absent at the end. After an exception there are no further batches.
  std::optional<Batch> next();
  std::int64_t batches() const { return batches_; }

 private:
  struct Shared;
  static void make_batches(Shared& shared);
  void stop();

  std::int64_t batches_ = 0;
  std::unique_ptr<Shared> shared_;
};

}  // namespace cpprun
