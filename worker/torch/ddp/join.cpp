// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/join.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "worker/torch/collectives/collectives.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {
namespace {

at::Tensor number(float value, const c10::Device& device) {
  return at::full({1}, value, at::TensorOptions(at::kFloat).device(device));
}

// The sum over all ranks.
int count(float mine, const c10::Device& device, const ProcessGroup& group) {
  const at::Tensor sum = number(mine, device);
  all_reduce(sum, group);
  return static_cast<int>(sum.item<float>());
}

}  // namespace

c10::intrusive_ptr<c10d::Work> Joinable::notify_join() {
  if (joined_ == nullptr || !notifies_) return {};
  const ProcessGroup& group = join_group();
  std::vector<at::Tensor> ones{number(1, join_device())};
  auto work = join_native()->allreduce(ones);
  if (joined_->throw_on_early_termination && count(0, join_device(), group) > 0) {
    throw DistributedError(
        fmt::format("rank {} still has batches, but another rank has none; "
                    "throw_on_early_termination is set, so every rank throws",
                    group.rank()));
  }
  return work;
}

Join::Join(std::vector<Joinable*> joinables, const JoinOptions& options)
    : joinables_(std::move(joinables)), options_(options) {
  if (joinables_.empty()) throw DistributedError("Join: pass at least one object");
  for (std::size_t i = 0; i < joinables_.size(); ++i) {
    const Joinable* const each = joinables_[i];
    if (std::count(joinables_.begin(), joinables_.end(), each) > 1) {
      throw DistributedError("Join: an object was passed twice");
    }
    each->check_join(options_, i == 0);
    if (each->join_group().native() != joinables_.front()->join_group().native()) {
      throw DistributedError("Join: all objects must use the same process group");
    }
    if (each->joined_ != nullptr) throw DistributedError("Join: an object is in another Join");
  }
  for (Joinable* const each : joinables_) {
    each->joined_ = &options_;
    each->notifies_ = each == joinables_.front();
  }
}

Join::~Join() {
  end();
}

void Join::end() {
  for (Joinable* const each : joinables_) {
    if (each->joined_ == &options_) each->joined_ = nullptr;
  }
}

int Join::ranks_with_batches() const {
  return count(0, joinables_.front()->join_device(), joinables_.front()->join_group());
}

void Join::finish() {
  // While it waits for the next step of the others, this rank counts as being in it.
  std::atomic<std::int64_t>& steps = joinables_.front()->join_group().parts().family->steps;
  ++steps;
  bool last = true;
  while (ranks_with_batches() > 0) {
    if (options_.throw_on_early_termination) {
      const ProcessGroup& group = joinables_.front()->join_group();
      count(1, joinables_.front()->join_device(), group);
      throw DistributedError(
          fmt::format("rank {} has no further batches, but another rank has; "
                      "throw_on_early_termination is set, so every rank throws",
                      group.rank()));
    }
    bool reduces = true;
    for (Joinable* const each : joinables_) reduces = reduces && each->shadow_step();
    last = false;
    ++steps;
  }
  --steps;
  end();
  for (Joinable* const each : joinables_) each->after_join(last);
}

}  // namespace cpprun
