// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Splits the state of an optimizer among the ranks (ZeRO, stage 1): each rank steps its share of
// the parameters, and broadcasts them. So N ranks need an N-th of the memory each, and compute the
// same numbers as without it. The shares are those of
// torch.distributed.optim.ZeroRedundancyOptimizer: whole parameters, largest first, each for the
// rank with the smallest share so far.
//
//   cpprun::ZeroRedundancyOptimizer<cpprun::FusedAdam> optimizer(ddp.parameters(),
//                                                                cpprun::adamw_options(), group);

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/torch/ddp/join.h"
#include "worker/torch/files/state_dict.h"
#include "worker/torch/group/process_group.h"
#include "worker/torch/optim/optimizer.h"
#include "worker/torch/optim/optimizer_state.h"

namespace cpprun {

// Which rank has which parameters; the part that does not depend on the optimizer.
class ZeroShares {
 public:
  // `groups`: the parameters of each group, equal on all ranks.
  ZeroShares(const std::vector<std::vector<at::Tensor>>& groups, const ProcessGroup& group);

  // The rank that updates a parameter, by its number over all groups.
  int owner(std::size_t parameter) const { return owners_.at(parameter); }
  // How many parameters of each group a rank has.
  std::vector<std::int64_t> sizes_of(int rank) const;
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  const ProcessGroup& group() const { return group_; }
  // With errors of this library.
  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const { return native_; }

  // Every rank must call these.
  // Each rank's parameters become those of their owners.
  void broadcast_parameters() const;
  // The state of all parameters on rank 0, from the state of each rank's share; empty elsewhere.
  OptimizerState gathered(const OptimizerState& own) const;
  // This rank's share of a whole state.
  OptimizerState own_part(const OptimizerState& whole) const;

 private:
  ProcessGroup group_;  // an alias
  c10::intrusive_ptr<c10d::ProcessGroup> native_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::int64_t> sizes_;  // of each group
  std::vector<int> owners_;          // as long as parameters_
};

// `Optimizer`: FusedSgd or FusedAdam.
template <class Optimizer>
class ZeroRedundancyOptimizer : public Joinable {
 public:
  using Group = typename Optimizer::Group;

  // Every rank must create it, with equal parameters and options. Throw what the optimizer throws,
  // and DistributedError if the group has Python ranks.
  template <class Options>
  ZeroRedundancyOptimizer(std::vector<at::Tensor> parameters, const Options& options,
                          const ProcessGroup& group)
      : ZeroRedundancyOptimizer(std::vector<Group>{{std::move(parameters), options}}, group) {}
  ZeroRedundancyOptimizer(std::vector<Group> groups, const ProcessGroup& group)
      : shares_(parameters_of(groups), group), own_(own_groups(std::move(groups))) {}

  // Every rank must call it. Throws DistributedError if a peer is gone.
  void step() {
    own_.step();
    shares_.broadcast_parameters();
  }

  void zero_grad(bool set_to_none = false) { zero_gradients(parameters(), set_to_none); }
  std::size_t group_count() const { return own_.group_count(); }
  const std::vector<at::Tensor>& parameters() const { return shares_.parameters(); }
  void set_lr(double lr) { own_.set_lr(lr); }
  void set_lr(std::size_t group, double lr) { own_.set_lr(group, lr); }
  double lr(std::size_t group = 0) const { return own_.lr(group); }
  // The part of this rank.
  const Optimizer& own() const { return own_; }

  // As those of the optimizer, for all parameters. Every rank must call state() and state_dict();
  // rank 0 gets the state, as Checkpoints::save() needs it, and the others an empty one. load() and
  // load_state_dict() take a whole state on every rank; the number of ranks may differ.
  StateDict state() const {
    const OptimizerState whole = gathered();
    return whole.groups.empty() ? StateDict() : whole.to_checkpoint();
  }
  void load(const StateDict& state) {
    const auto whole = OptimizerState::from_checkpoint(state, shares_.sizes(), "the optimizer");
    own_.load(shares_.own_part(whole).to_checkpoint());
  }
  c10::IValue state_dict() const {
    const OptimizerState whole = gathered();
    return whole.groups.empty() ? c10::IValue() : whole.to_python();
  }
  void load_state_dict(const c10::IValue& state) {
    const auto whole = OptimizerState::from_python(state, shares_.sizes(), "the optimizer");
    own_.load_state_dict(shares_.own_part(whole).to_python());
  }

  // For Join, after DistributedDataParallel.
  Joinable& joinable() { return *this; }

 protected:
  const ProcessGroup& join_group() const override { return shares_.group(); }
  c10::Device join_device() const override { return parameters().front().device(); }
  const c10::intrusive_ptr<c10d::ProcessGroup>& join_native() const override {
    return shares_.native();
  }
  void check_join(const JoinOptions& /*options*/, bool first) const override {
    if (first) throw DistributedError("Join: pass DistributedDataParallel before the optimizer");
  }
  bool shadow_step() override {
    step();
    return true;
  }
  void after_join(bool /*last*/) override {}

 private:
  static std::vector<std::vector<at::Tensor>> parameters_of(const std::vector<Group>& groups) {
    std::vector<std::vector<at::Tensor>> parameters;
    for (const Group& group : groups) parameters.push_back(group.parameters);
    return parameters;
  }

  std::vector<Group> own_groups(std::vector<Group> groups) const {
    std::size_t number = 0;
    for (Group& group : groups) {
      std::vector<at::Tensor> own;
      for (at::Tensor& parameter : group.parameters) {
        if (shares_.owner(number++) == shares_.group().rank()) own.push_back(parameter);
      }
      group.parameters = std::move(own);
    }
    return groups;
  }

  OptimizerState gathered() const {
    return shares_.gathered(OptimizerState::from_checkpoint(
        own_.state(), shares_.sizes_of(shares_.group().rank()), "the optimizer"));
  }

  ZeroShares shares_;
  Optimizer own_;
};

}  // namespace cpprun
