// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// torch::optim's optimizers in checkpoints and in files of Python, and with the schedules of
// training.h. SGD, Adam, AdamW, RMSprop and Adagrad; others throw StateError with their type.

#include <ATen/core/ivalue.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cstdint>

#include "worker/torch/files/state_dict.h"

namespace cpprun {

// The learning rate of all groups.
void set_lr(torch::optim::Optimizer& optimizer, double lr);

// For a checkpoint, as FusedAdam::state() and load(): load_state() takes tensors, step counts and
// learning rates, and throws StateError, without a change, if the state is for other parameters.
StateDict state_of(torch::optim::Optimizer& optimizer);
void load_state(torch::optim::Optimizer& optimizer, const StateDict& state);

// Python's optimizer.state_dict() and load_state_dict(), for save_pth and load_pth. As in Python,
// loading takes all options.
c10::IValue state_dict(torch::optim::Optimizer& optimizer);
void load_state_dict(torch::optim::Optimizer& optimizer, const c10::IValue& state);

// The number of steps of a scheduler, its only state beside the optimizer's learning rates. (The
// state of ReduceLROnPlateauScheduler cannot be reached.)
std::int64_t steps_of(const torch::optim::LRScheduler& scheduler);
void set_steps(torch::optim::LRScheduler& scheduler, std::int64_t steps);

}  // namespace cpprun
