// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/join.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "worker/torch/collectives/collectives.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {

at::Tensor Joinable::count_ranks(bool mine) const {
  at::Tensor ranks =
      at::full({1}, mine ? 1.0F : 0.0F, at::TensorOptions(at::kFloat).device(join_device()));
  all_reduce(ranks, join_group());
  return ranks;
}

c10::intrusive_ptr<c10d::Work> Joinable::notify_join() {
  if (joined_ == nullptr || !notifies_) return {};
  std::vector<at::Tensor> ones{at::ones({1}, at::TensorOptions(at::kFloat).device(join_device()))};
  auto work = join_native()->allreduce(ones);
  if (joined_->throw_on_early_termination && count_ranks(false).item<float>() > 0) {
    throw DistributedError(
        fmt::format("rank {} still has batches, but another rank has none; "
                    "throw_on_early_termination is set, so every rank throws",
                    join_group().rank()));
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

void Join::finish() {
  // While it waits for the next step of the others, this rank counts as being in it.
  const Joinable& first = *joinables_.front();
  std::atomic<std::int64_t>& steps = first.join_group().parts().family->steps;
  ++steps;
  bool last = true;
  while (first.count_ranks(false).item<float>() > 0) {
    if (options_.throw_on_early_termination) {
      static_cast<void>(first.count_ranks(true));
      throw DistributedError(
          fmt::format("rank {} has no further batches, but another rank has; "
                      "throw_on_early_termination is set, so every rank throws",
                      first.join_group().rank()));
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
