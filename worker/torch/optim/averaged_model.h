// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Averages of a model's parameters over a training run, with the arithmetic of
// torch.optim.swa_utils.AveragedModel: the exponential moving average (EMA), or the mean of all
// updates (stochastic weight averaging).
//
//   cpprun::AveragedModel average(*net, {.decay = 0.999});
//   …; optimizer.step(); average.update();
//   { const auto averaged = average.swap_in(); evaluate(net); }

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/torch/files/state_dict.h"

namespace cpprun {

struct AveragedModelOptions {
  // From 0 to 1: average = decay * average + (1 - decay) * parameter. Absent: the mean.
  std::optional<double> decay;
  // Averages the buffers, too: a BatchNorm's statistics. Otherwise the model's own are used.
  bool use_buffers = false;
};

class AveragedModel {
 public:
  // Refers to the tensors of the module, which must keep them. Throws std::invalid_argument if
  // `decay` is out of range.
  template <class Module>
  explicit AveragedModel(const Module& module, const AveragedModelOptions& options = {})
      : AveragedModel(named(module.named_parameters(/*recurse=*/true)),
                      named(module.named_buffers(/*recurse=*/true)), options) {}

  // Call it after each step of the optimizer. The first call copies the parameters.
  void update();
  std::int64_t updates() const { return updates_; }

  // The model has the averages while this exists, and then its own values again. Needs memory for a
  // copy of them. It may not outlive the AveragedModel.
  class SwappedIn {
   public:
    ~SwappedIn();
    SwappedIn(const SwappedIn&) = delete;
    SwappedIn& operator=(const SwappedIn&) = delete;

   private:
    friend class AveragedModel;
    explicit SwappedIn(const AveragedModel& average);

    const AveragedModel& average_;
    std::vector<at::Tensor> own_;
  };
  [[nodiscard]] SwappedIn swap_in() const { return SwappedIn(*this); }

  // The names of Python's AveragedModel: n_averaged, and module.<name> for the averages. Buffers
  // that are not averaged are the model's. load() throws StateError, without a change, if the state
  // is of another model.
  StateDict state() const;
  void load(const StateDict& state);

 private:
  AveragedModel(TensorsByName parameters, TensorsByName buffers,
                const AveragedModelOptions& options);
  template <class Items>
  static TensorsByName named(const Items& items) {
    TensorsByName tensors;
    for (const auto& item : items) tensors.emplace_back(item.key(), item.value());
    return tensors;
  }

  AveragedModelOptions options_;
  TensorsByName own_;                 // the model's tensors that are averaged
  TensorsByName remaining_;           // the model's other buffers
  std::vector<at::Tensor> averages_;  // as long as own_
  std::int64_t updates_ = 0;
};

}  // namespace cpprun
