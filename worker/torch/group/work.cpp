// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "worker/torch/group/distributed_error.h"
#include "worker/torch/group/failure.h"
#include "worker/torch/group/nccl_backend.h"
#include "worker/torch/group/stall_watch.h"

namespace cpprun {

struct Work::Parts {
  c10::intrusive_ptr<c10d::Work> native;
  Start start;
  std::vector<std::function<std::vector<at::Tensor>()>> finish;  // in the order of the then() calls
  bool waited = false;
  bool is_watched = false;  // as an operation on the GPU

  // wait(), future() and then() all call this. The first caller computes the outputs for all.
  const std::vector<at::Tensor>& complete() {
    const std::scoped_lock lock(mutex);
    for (const auto& each : std::exchange(finish, {})) start.outputs = each();
    return start.outputs;
  }

  std::mutex mutex;
};

namespace {

std::string what_others_wait_in(const Work::Start& start, const std::string& cause) {
  if (!start.stalls) return {};
  if (means_time_is_up(cause)) return start.stalls->explain(start.name);
  return means_peer_ended(cause) ? start.stalls->explain_lost_peer(start.name) : std::string();
}

[[noreturn]] void rethrow_text(const Work::Start& start) {
  const Exchange exchange = start.timeout ? Exchange::message : Exchange::collective;
  try {
    throw;
  } catch (const DistributedError&) {
    throw;
  } catch (const std::exception& error) {
    throw DistributedError(explain_failure(start.name, error.what(), exchange) +
                           what_others_wait_in(start, error.what()));
  }
}

}  // namespace

Work::Work(c10::intrusive_ptr<c10d::Work> native, Start start) : parts_(std::make_shared<Parts>()) {
  parts_->native = std::move(native);
  parts_->start = std::move(start);
  if (parts_->start.stalls == nullptr) return;
  if (auto finished = completion_of(parts_->native)) {
    parts_->start.stalls->watch(parts_->start.name, std::move(finished));
    parts_->is_watched = true;
  }
}

const std::vector<at::Tensor>& Work::wait() {
  Parts& parts = *parts_;
  if (parts.waited) return parts.start.outputs;
  std::optional<Stall> stall;  // a completed operation needs no wait
  const bool blocks = parts.start.stalls != nullptr && !parts.is_watched;
  if (blocks && !parts.native->isCompleted()) {
    stall.emplace(parts.start.stalls, parts.start.name);
  }
  try {
    parts.start.timeout ? parts.native->wait(*parts.start.timeout) : parts.native->wait();
  } catch (const std::exception&) {
    rethrow_text(parts.start);
  }
  parts.waited = true;
  return parts.complete();
}

bool Work::is_completed() const {
  return parts_->waited || parts_->native->isCompleted();
}

int Work::source_rank() const {
  return parts_->native->sourceRank();
}

Work Work::then(std::function<std::vector<at::Tensor>()> finish) const {
  auto next = std::make_shared<Parts>();
  next->native = parts_->native;
  next->start = parts_->start;
  next->is_watched = parts_->is_watched;  // it is the same operation
  next->finish = {[before = parts_] { return before->complete(); }, std::move(finish)};
  return Work(std::move(next));
}

c10::intrusive_ptr<c10::ivalue::Future> Work::future() const {
  return parts_->native->getFuture()->then(
      [parts = parts_](c10::ivalue::Future& done) {
        try {
          // value() rethrows a failure.
          static_cast<void>(done.value());
        } catch (const std::exception&) {
          rethrow_text(parts->start);
        }
        return c10::IValue(parts->complete());
      },
      c10::ListType::ofTensors());
}

}  // namespace cpprun
