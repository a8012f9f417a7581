// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads the pickle inside a file of torch.save: dicts, lists, tuples, numbers, texts, and
// descriptions of tensors; and that of a data set with numpy's arrays. It executes nothing: a
// pickle names functions to call, and the few that describe tensors are known here by name; any
// other is refused with its name. No LibTorch: what the tensors hold is read by worker/torch.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/result.h"

namespace cpprun::pickle {

// Values live in one vector and refer to each other by index, so that what a pickle mentions twice
// is one value, and a hostile one that contains itself is no endless loop.
using Index = std::size_t;

struct None {
  friend bool operator==(const None&, const None&) = default;
};
struct List {
  std::vector<Index> items;
};
struct Tuple {
  std::vector<Index> items;
};
struct Dict {
  std::vector<std::pair<Index, Index>> items;
};
// A name that stands for itself: torch.float32, and the types of storages.
struct Global {
  std::string name;  // module.name
};
struct Storage {
  std::string type;  // torch.FloatStorage
  std::string key;   // of the record that holds the bytes
};
struct Tensor {
  Index storage = 0;
  std::string dtype;  // empty: the storage's type says it
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// One of numpy's; empty until its state is there.
struct Array {
  std::string dtype;  // as numpy calls it: u1
  std::vector<std::int64_t> sizes;
  Index bytes = 0;  // a text; of no meaning in an empty one
};

using Value = std::variant<None, bool, std::int64_t, double, std::string, List, Tuple, Dict, Global,
                           Storage, Tensor, Array>;

struct Pickle {
  std::vector<Value> values;
  Index root = 0;
};

// A refusal names the byte where the reader stood.
Result<Pickle> read_pickle(std::string_view bytes);

// The calls that a file of torch.save may ask for, as constructions of values.

// Whether a pickle may mention this name at all.
bool is_known(const std::string& global);

// The value that calling `global` with these arguments stands for.
Result<Value> rebuild(const std::vector<Value>& values, const std::string& global,
                      const std::vector<Index>& arguments);

// The storage that a persistent id, ("storage", type, key, location, count), names.
Result<Value> storage_of(const std::vector<Value>& values, const std::vector<Index>& id);

// numpy's arrays in a pickle, as the data sets have them that came with Python 2 (CIFAR's
// data_batch_1): an empty array that is filled by its state. Constructions of values, like
// pickle_rebuild.h, which hands on to this.

bool is_array_name(const std::string& global);

// The value that calling it stands for: an empty Array, or the name of a type, `numpy.dtype:u1`.
Result<Value> make_array_part(const std::vector<Value>& values, const std::string& global,
                              const std::vector<Index>& arguments);

// What an array or a type becomes by its state.
Result<Value> with_state(const std::vector<Value>& values, Index target, Index state);

}  // namespace cpprun::pickle
