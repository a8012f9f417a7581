// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The calls that a file of torch.save may ask for, as constructions of values.

#include <string>
#include <vector>

#include "worker/torch/files/pickle_reader.h"

namespace cpprun::pickle {

// Whether a pickle may mention this name at all.
bool is_known(const std::string& global);

// The value that calling `global` with these arguments stands for.
Result<Value> rebuild(const std::vector<Value>& values, const std::string& global,
                      const std::vector<Index>& arguments);

// The storage that a persistent id, ("storage", type, key, location, count), names.
Result<Value> storage_of(const std::vector<Value>& values, const std::vector<Index>& id);

}  // namespace cpprun::pickle
