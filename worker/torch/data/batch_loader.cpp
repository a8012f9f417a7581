// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/data/batch_loader.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
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
  std::optional<c10::Device> device;  // the GPU of the thread that created the loader

  std::mutex mutex;
  std::condition_variable changed;
  // guarded by the mutex; batches are numbered from 0:
  std::map<std::int64_t, Batch> ready;
  std::int64_t begun = 0;  // batches that a thread prepares or has prepared
  std::int64_t taken = 0;  // batches that next() has returned
  std::int64_t end = 0;  // the first batch that is not delivered: it failed, or is beyond the last
  std::exception_ptr error;  // of that batch
  bool stopped = false;      // the loader is being destroyed

  std::vector<std::thread> threads;

  Batch make(std::int64_t number) const {
    const std::int64_t first = number * options.batch_size;
    const std::int64_t last =
        std::min(first + options.batch_size, static_cast<std::int64_t>(indices.size()));
    Batch batch = load({indices.begin() + first, indices.begin() + last});
    if (options.pin_memory && device) {
      for (at::Tensor* const each : {&batch.inputs, &batch.targets}) {
        if (each->defined() && each->is_cpu()) *each = each->pin_memory();
      }
    }
    return batch;
  }
};

BatchLoader::BatchLoader(std::vector<std::int64_t> indices, const LoaderOptions& options, Load load)
    : shared_(std::make_unique<Shared>()) {
  if (options.batch_size < 1 || options.prefetch < 1 || options.threads < 1) {
    throw std::invalid_argument(
        fmt::format("batch_size, prefetch and threads must be at least 1, not {}, {} and {}",
                    options.batch_size, options.prefetch, options.threads));
  }
  const auto size = static_cast<std::int64_t>(indices.size());
  const bool has_rest = !options.drop_last && size % options.batch_size != 0;
  batches_ = size / options.batch_size + (has_rest ? 1 : 0);
  shared_->indices = std::move(indices);
  shared_->options = options;
  shared_->load = std::move(load);
  shared_->end = batches_;
  if (cuda_device_count() > 0) {
    shared_->device = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
  }
  try {
    for (int i = 0; i < options.threads; ++i) {
      shared_->threads.emplace_back([shared = shared_.get()] { make_batches(*shared); });
    }
  } catch (...) {
    stop();
    throw;
  }
}

BatchLoader::~BatchLoader() {
  stop();
}

void BatchLoader::stop() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stopped = true;
  }
  shared_->changed.notify_all();
  for (std::thread& each : shared_->threads) each.join();
}

void BatchLoader::make_batches(Shared& shared) {
  // The default GPU of a new thread is the machine's first, which another rank uses.
  const c10::OptionalDeviceGuard on_device(shared.device);
  const std::int64_t ahead =
      static_cast<std::int64_t>(shared.options.prefetch) * shared.options.threads;
  std::unique_lock lock(shared.mutex);
  for (;;) {
    shared.changed.wait(lock, [&] {
      return shared.stopped || shared.begun >= shared.end || shared.begun < shared.taken + ahead;
    });
    if (shared.stopped || shared.begun >= shared.end) return;
    const std::int64_t number = shared.begun++;
    lock.unlock();
    Batch batch;
    std::exception_ptr error;
    try {
      batch = shared.make(number);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (!error) {
      shared.ready.emplace(number, std::move(batch));
    } else if (number < shared.end) {
      shared.end = number;
      shared.error = error;
    }
    shared.changed.notify_all();
  }
}

std::optional<Batch> BatchLoader::next() {
  std::unique_lock lock(shared_->mutex);
  const auto is_ready = [this] { return shared_->ready.contains(shared_->taken); };
  shared_->changed.wait(lock, [&] { return is_ready() || shared_->taken >= shared_->end; });
  if (!is_ready()) {
    if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
    return std::nullopt;
  }
  Batch batch = std::move(shared_->ready.extract(shared_->taken++).mapped());
  shared_->changed.notify_all();
  return batch;
}

}  // namespace cpprun
