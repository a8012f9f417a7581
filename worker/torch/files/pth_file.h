// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Files of torch.save, for people who come from Python or go there. What is written opens with a
// plain torch.load (weights_only, its default); what is read may be any state_dict that torch.save
// wrote, an optimizer's included. Reading executes nothing. Throws FileError.
//
// Values are c10::IValue: Tensor, int, double, bool, str, None, dict, list, tuple.

#include <ATen/core/ivalue.h>

#include <string>

#include "worker/torch/files/safetensors_file.h"
#include "worker/torch/files/state_dict.h"

namespace cpprun {

// Whole or not at all; on the disk when it returns. Tensors that are the same tensor stay so.
void save_pth(const std::string& path, const c10::IValue& value);

// A dict of the tensors: what `model.load_state_dict(torch.load(path))` wants.
void save_pth(const std::string& path, const StateDict& state);

// Tensors come on the CPU; those that shared memory when they were saved share it again.
c10::IValue load_pth(const std::string& path);

// A dict, nested or not, with its keys joined by dots: {"model": {"weight": …}} → "model.weight".
// Numbers and texts become texts; what is neither is left out.
StateDict state_dict_from(const c10::IValue& value);

}  // namespace cpprun
