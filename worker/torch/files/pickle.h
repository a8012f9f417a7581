// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads the pickle in a file of torch.save (dicts, lists, tuples, numbers, strings, descriptions of
// tensors) and in data sets with numpy arrays. It executes nothing: a pickle names functions to
// call; the few that describe tensors are known by name, and any other is an error that names it.
// Does not depend on LibTorch: worker/torch reads the contents of the tensors. Also writes pickles
// (Writer).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "proto/result.h"

namespace cpprun::pickle {

// Values are in one vector and refer to each other by index. So an object that the pickle refers to
// twice is one value, and a hostile pickle that contains itself causes no endless loop.
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
// A name without a call: torch.float32, and the storage types.
struct Global {
  std::string name;  // module.name
};
struct Storage {
  std::string type;  // torch.FloatStorage
  std::string key;   // names the record with the bytes
};
struct Tensor {
  Index storage = 0;
  std::string dtype;  // empty: implied by the type of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// A numpy array; empty until its state is set.
struct Array {
  std::string dtype;  // numpy's name: u1
  std::vector<std::int64_t> sizes;
  Index bytes = 0;  // index of a text; meaningless if the array is empty
};

using Value = std::variant<None, bool, std::int64_t, double, std::string, List, Tuple, Dict, Global,
                           Storage, Tensor, Array>;

struct Pickle {
  std::vector<Value> values;
  Index root = 0;
};

// An error names the byte offset at which reading stopped.
Result<Pickle> read_pickle(std::string_view bytes);

// Builds the values of the calls that a file of torch.save may contain.

// Whether a pickle may use this name at all.
bool is_known(const std::string& global);

// The result of calling `global` with these arguments.
Result<Value> rebuild(const std::vector<Value>& values, const std::string& global,
                      const std::vector<Index>& arguments);

// The storage of a persistent id: ("storage", type, key, location, count).
Result<Value> storage_of(const std::vector<Value>& values, const std::vector<Index>& id);

// numpy arrays in pickles of Python 2, as in CIFAR's data_batch_1: an empty array, then its state.
// Builds values, like rebuild(), which calls this.

bool is_array_name(const std::string& global);

// The result of calling `global`: an empty Array, or the name of a type, `numpy.dtype:u1`.
Result<Value> make_array_part(const std::vector<Value>& values, const std::string& global,
                              const std::vector<Index>& arguments);

// The value of an array or a type after its state is set.
Result<Value> with_state(const std::vector<Value>& values, Index target, Index state);

// A tensor that covers its whole storage.
struct TensorOf {
  std::string key;           // of the storage; its record is data/<key>
  std::string storage_type;  // FloatStorage; empty for types without a storage class
  std::string dtype;         // float32
  std::uint64_t bytes = 0;
  std::uint64_t elements = 0;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// Writes the pickles of .pth files: protocol 2, limited to what torch.load reads with weights_only.
// LibTorch's own pickler lacks the tensor types without a storage class of their own. The caller
// writes values in order; a dict as key, value, key, value.
class Writer {
 public:
  Writer();

  void none();
  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  void text(std::string_view value);
  void tensor(const TensorOf& value);

  void begin_list();
  void end_list();
  void begin_tuple();
  void end_tuple();
  void begin_dict();
  void end_dict();

  // Returns the whole pickle. Write nothing afterwards.
  std::string finish();

 private:
  void code(char operation);
  void little_endian(std::uint64_t value, int bytes);
  void global(std::string_view module, std::string_view name);
  void numbers(const std::vector<std::int64_t>& values);

  std::string bytes_;
};

}  // namespace cpprun::pickle
