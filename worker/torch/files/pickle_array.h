// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// numpy's arrays in a pickle, as the data sets have them that came with Python 2 (CIFAR's
// data_batch_1): an empty array that is filled by its state. Constructions of values, like
// pickle_rebuild.h, which hands on to this.

#include <string>
#include <vector>

#include "worker/torch/files/pickle_reader.h"

namespace cpprun::pickle {

bool is_array_name(const std::string& global);

// The value that calling it stands for: an empty Array, or the name of a type, `numpy.dtype:u1`.
Result<Value> make_array_part(const std::vector<Value>& values, const std::string& global,
                              const std::vector<Index>& arguments);

// What an array or a type becomes by its state.
Result<Value> with_state(const std::vector<Value>& values, Index target, Index state);

}  // namespace cpprun::pickle
