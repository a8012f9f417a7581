// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/guarded_group.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "worker/torch/compat/versions.h"
#include "worker/torch/group/failure.h"
#include "worker/torch/group/nccl_backend.h"
#include "worker/torch/group/process_group_parts.h"
#include "worker/torch/group/stall_watch.h"

namespace cpprun {
namespace {

using NativeWork = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// What the error message of one operation needs.
struct Attempt {
  std::string what;  // all_reduce(Float [4] on cpu)
  std::string who;
  ProcessGroup group;
  int rank = 0;
  std::shared_ptr<const Stall> stall = nullptr;

  // Call it when the Reducer has started the operation: it waits from then on.
  void begin() {
    if (const auto& watch = group.parts().stalls) stall = std::make_shared<Stall>(watch, text());
  }
  void end() const {
    if (stall != nullptr) stall->end();
  }
  // The same for an operation over NCCL: the GPU waits, and no call here ends it.
  void watch(const NativeWork& work) const {
    const auto& stalls = group.parts().stalls;
    auto finished = stalls != nullptr ? completion_of(work) : nullptr;
    if (finished) stalls->watch(text(), std::move(finished));
  }
  std::string text() const { return fmt::format("{} in {}", what, who); }

  [[noreturn]] void fail(const std::exception& error) const {
    if (dynamic_cast<const DistributedError*>(&error) != nullptr) throw;
    end();
    const std::string operation = fmt::format("{} on rank {}", text(), rank);
    throw DistributedError(explain_failure(operation, error.what(), Exchange::collective) +
                           departures(group, text(), error.what()));
  }
};

class GuardedWork : public c10d::Work {
 public:
  GuardedWork(NativeWork native, std::shared_ptr<const Attempt> attempt)
      : native_(std::move(native)), attempt_(std::move(attempt)) {}

  bool isCompleted() override { return native_->isCompleted(); }
  bool isSuccess() const override { return native_->isSuccess(); }
  std::exception_ptr exception() const override { return native_->exception(); }
  int sourceRank() const override { return native_->sourceRank(); }
  Tensors result() override { return native_->result(); }
  void synchronize() override { native_->synchronize(); }
  void abort() override { native_->abort(); }

  bool wait(std::chrono::milliseconds timeout) override {
    try {
      const bool done = native_->wait(timeout);
      attempt_->end();
      return done;
    } catch (const std::exception& error) {
      attempt_->fail(error);
    }
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return native_->getFuture()->then(
        [attempt = attempt_](c10::ivalue::Future& done) {
          try {
            attempt->end();
            return done.value();
          } catch (const std::exception& error) {
            attempt->fail(error);
          }
        },
        c10::ListType::ofTensors());
  }

 private:
  NativeWork native_;
  std::shared_ptr<const Attempt> attempt_;
};

class GuardedBackend : public c10d::Backend {
 public:
  GuardedBackend(const ProcessGroup& group, c10::DeviceType device, Caller caller)
      : Backend(group.rank(), group.size()),
        group_(group.alias()),
        device_(device),
        caller_(std::move(caller)) {}

  const std::string getBackendName() const override { return native()->getBackendName(); }

  NativeWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return run("all_reduce", tensors,
               [&](c10d::Backend& native) { return native.allreduce(tensors, options); });
  }
  NativeWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return run("broadcast", tensors,
               [&](c10d::Backend& native) { return native.broadcast(tensors, options); });
  }
  NativeWork allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                       const c10d::AllgatherOptions& options) override {
    return run("all_gather", inputs,
               [&](c10d::Backend& native) { return native.allgather(outputs, inputs, options); });
  }

 private:
  // Looked up every time, so that using a group that was left throws.
  c10::intrusive_ptr<c10d::Backend> native() const { return group_.native()->getBackend(device_); }

  template <class Operation>
  NativeWork run(const char* name, const Tensors& tensors, const Operation& operation) {
    const auto backend = native();
    const auto attempt = std::make_shared<Attempt>(
        Attempt{.what = fmt::format("{}({})", name, describe(tensors.at(0))),
                .who = caller_(),
                .group = group_.alias(),
                .rank = group_.global_ranks().at(static_cast<std::size_t>(getRank()))});
    if (group_.check() != nullptr) agree_on_text(group_, attempt->what + " in " + attempt->who);
    try {
      if (device_ == c10::kCPU) {
        NativeWork work = operation(*backend);
        attempt->begin();
        return c10::make_intrusive<GuardedWork>(std::move(work), attempt);
      }
      // The first operation over NCCL connects the ranks, and this thread waits for them.
      attempt->begin();
      NativeWork work = operation(*backend);
      attempt->end();
      // Not wrapped: a stream waits for the work, and its future knows the stream.
      attempt->watch(work);
      return work;
    } catch (const std::exception& error) {
      attempt->fail(error);
    }
  }

  ProcessGroup group_;
  c10::DeviceType device_;
  Caller caller_;
};

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> guarded(const ProcessGroup& group, Caller caller) {
  const ProcessGroup::Parts& parts = group.parts();
  auto made = c10::make_intrusive<c10d::ProcessGroup>(parts.numbered, group.rank(), group.size());
  const auto& native = group.native();
  if (native->getBoundDeviceId()) made->setBoundDeviceId(native->getBoundDeviceId());
  // The Reducer's logger casts a backend of type gloo to gloo's own class, so use CUSTOM.
  using Type = c10d::ProcessGroup::BackendType;
  const auto type = [&native](c10::DeviceType device) {
    const bool nccl = device == c10::kCUDA && native->getBackendType() == Type::NCCL;
    return nccl ? Type::NCCL : Type::CUSTOM;
  };
  made->setDefaultBackend(type(group.device().type()));
  for (const c10::DeviceType device : {c10::kCPU, c10::kCUDA}) {
    if (!compat::carries(*native, device)) continue;
    made->setBackend(device, type(device),
                     c10::make_intrusive<GuardedBackend>(group, device, caller));
  }
  made->setGroupName(group.name());
  return made;
}

}  // namespace cpprun
