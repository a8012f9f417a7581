// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/batch_loader.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "worker/torch/group/device.h"

namespace cpprun {

struct BatchLoader::Shared {
  std::vector<std::int64_t> indices;
  LoaderOptions options;
  Load load;
  std::int64_t batches = 0;

  std::mutex mutex;
  std::condition_variable changed;
  // guarded by the mutex:
  std::deque<Batch> ready;
  std::exception_ptr error;
  bool finished = false;              // no further batch will be created
  bool stopped = false;               // the loader is being destroyed
  std::optional<c10::Device> device;  // the GPU of the thread that created the loader
  std::thread thread;
};

BatchLoader::BatchLoader(std::vector<std::int64_t> indices, const LoaderOptions& options, Load load)
    : shared_(std::make_unique<Shared>()) {
  if (options.batch_size < 1 || options.prefetch < 1) {
    throw std::invalid_argument(
        fmt::format("batch_size and prefetch must be at least 1, not {} and {}", options.batch_size,
                    options.prefetch));
  }
  const auto size = static_cast<std::int64_t>(indices.size());
  const std::int64_t rest = options.drop_last ? 0 : options.batch_size - 1;
  batches_ = (size + rest) / options.batch_size;
  shared_->indices = std::move(indices);
  shared_->options = options;
  shared_->load = std::move(load);
  shared_->batches = batches_;
  if (cuda_device_count() > 0) {
    shared_->device = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
  }
  shared_->thread = std::thread([shared = shared_.get()] { make_batches(*shared); });
}

BatchLoader::~BatchLoader() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stopped = true;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

void BatchLoader::make_batches(Shared& shared) {
  const auto finish = [&shared](std::exception_ptr error) {
    const std::scoped_lock lock(shared.mutex);
    shared.error = std::move(error);
    shared.finished = true;
    shared.changed.notify_all();
  };
  try {
    // The default GPU of a new thread is the machine's first, which another rank uses.
    const c10::OptionalDeviceGuard on_device(shared.device);
    for (std::int64_t i = 0; i < shared.batches; ++i) {
      const std::int64_t begin = i * shared.options.batch_size;
      const std::int64_t end = std::min(begin + shared.options.batch_size,
                                        static_cast<std::int64_t>(shared.indices.size()));
      Batch batch = shared.load({shared.indices.begin() + begin, shared.indices.begin() + end});
      std::unique_lock lock(shared.mutex);
      shared.changed.wait(lock, [&shared] {
        return shared.stopped ||
               shared.ready.size() < static_cast<std::size_t>(shared.options.prefetch);
      });
      if (shared.stopped) return;
      shared.ready.push_back(std::move(batch));
      shared.changed.notify_all();
    }
    finish(nullptr);
  } catch (...) {
    finish(std::current_exception());
  }
}

std::optional<Batch> BatchLoader::next() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->finished || !shared_->ready.empty(); });
  // Batches from before an error come first.
  if (shared_->ready.empty()) {
    if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
    return std::nullopt;
  }
  Batch batch = std::move(shared_->ready.front());
  shared_->ready.pop_front();
  shared_->changed.notify_all();
  return batch;
}

}  // namespace cpprun
