// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_work.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <mutex>
#include <stdexcept>
#include <utility>

namespace cpprun {
namespace {

using Future = c10::ivalue::Future;

void complete(Future& future, const std::exception_ptr& failure,
              const std::vector<at::Tensor>& outputs) {
  if (failure) {
    future.setError(failure);
  } else {
    future.markCompleted(c10::IValue(outputs));
  }
}

// What MPI reads and writes.
struct Kept {
  std::vector<at::Tensor> tensors;
  std::shared_ptr<const std::vector<int>> counts;
};

// What came is looked at and copied; nothing of that may leave MPI's thread as an exception.
std::string settle(const MpiCall& call, const MPI_Status& status) {
  if (!call.finish) return {};
  try {
    const at::NoGradGuard no_grad;
    return call.finish(status);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void MpiHealth::breaks(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  if (why_.empty()) why_ = why;
}

std::string MpiHealth::why_broken() const {
  const std::scoped_lock lock(mutex_);
  return why_;
}

c10::intrusive_ptr<MpiWork> MpiWork::start(const std::shared_ptr<MpiProgress>& progress,
                                           const std::shared_ptr<MpiHealth>& health,
                                           const void* group, int rank, MpiCall call) {
  auto work = c10::make_intrusive<MpiWork>(rank, call.type, progress, call.outputs);
  const auto operation = std::make_shared<MpiOperation>();
  operation->group = group;
  operation->bytes = call.bytes;
  operation->timeout = call.timeout;
  operation->is_receive = call.is_receive;
  operation->begin = std::move(call.begin);
  operation->keeps = std::make_shared<const Kept>(Kept{std::move(call.tensors), call.counts});
  operation->end = [work, health, call = std::move(call)](const MpiEnd& how) {
    std::string failure = how.failure;
    if (failure.empty() && how.status != nullptr) {
      failure = settle(call, *how.status);
      if (failure.empty() && call.source) work->source_ = call.source(*how.status);
    }
    if (!failure.empty() && !call.is_message) health->breaks(failure);
    work->end(failure);
  };
  work->operation_ = operation;
  progress->submit(operation);
  return work;
}

MpiWork::MpiWork(int rank, c10d::OpType type, std::shared_ptr<MpiProgress> progress,
                 std::vector<at::Tensor> outputs)
    : Work(rank, type), progress_(std::move(progress)), outputs_(std::move(outputs)) {}

void MpiWork::end(const std::string& failure) {
  const auto error =
      failure.empty() ? nullptr : std::make_exception_ptr(std::runtime_error(failure));
  c10::intrusive_ptr<Future> future;
  {
    // A future that is asked for from now on is born complete.
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    failure_ = error;
    future = future_;
  }
  finish(error);
  if (!future) return;
  progress_->later([future, error, outputs = outputs_] { complete(*future, error, outputs); });
}

bool MpiWork::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return completed_; };
  if (timeout != kNoTimeout && !cv_.wait_for(lock, timeout, ended)) {
    if (gave_up_.empty()) {
      gave_up_ = fmt::format("{} after {:.3g} s over MPI", mpi_timed_out,
                             std::chrono::duration<double>(timeout).count());
      operation_->given_up = gave_up_.c_str();
    }
  }
  cv_.wait(lock, ended);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void MpiWork::abort() {
  operation_->given_up = mpi_aborted;
}

c10::intrusive_ptr<Future> MpiWork::getFuture() {
  const std::scoped_lock lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<Future>(c10::ListType::ofTensors());
  if (ended_) complete(*future_, failure_, outputs_);
  return future_;
}

}  // namespace cpprun
