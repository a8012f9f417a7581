// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads and writes files of torch.save, for exchange with Python. A plain torch.load (weights_only,
// its default) opens what is written here. Reads any state_dict that torch.save wrote, also an
// optimizer's. Reading executes nothing. Throws FileError.
//
// Values are c10::IValue: Tensor, int, double, bool, str, None, dict, list, tuple.

#include <ATen/core/ivalue.h>

#include <string>

#include "worker/torch/files/safetensors_file.h"
#include "worker/torch/files/state_dict.h"

namespace cpprun {

// Writes atomically; the file is on disk when it returns. Identical tensors stay identical.
void save_pth(const std::string& path, const c10::IValue& value);

// Writes a dict of the tensors, for `model.load_state_dict(torch.load(path))`.
void save_pth(const std::string& path, const StateDict& state);

// The tensors are on the CPU. Those that shared memory when saved share it again.
c10::IValue load_pth(const std::string& path);

// From a dict, nested or not; keys are joined by dots: {"model": {"weight": …}} → "model.weight".
// Numbers and strings become texts; other values are dropped.
StateDict state_dict_from(const c10::IValue& value);

}  // namespace cpprun
