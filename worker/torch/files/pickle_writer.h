// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes the pickles of .pth files: protocol 2, limited to what torch.load reads with weights_only.
// LibTorch's own pickler lacks the tensor types without a storage class of their own. The caller
// writes values in order; a dict as key, value, key, value.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cpprun::pickle {

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
