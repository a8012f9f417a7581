// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes and reads a StateDict as a safetensors file: its texts become the metadata. Reading
// executes nothing. Throws FileError.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "worker/torch/files/state_dict.h"

namespace cpprun {

// The message names the file and the fault.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Writes atomically; the file is on disk when it returns. Tensors may be views and on any device.
void save_safetensors(const std::string& path, const StateDict& state);

// The tensors share one allocation on the CPU. Throws if the file has a checksum of this library
// that does not match.
StateDict load_safetensors(const std::string& path);

// The same in two steps, to send the bytes to ranks without the file.
struct SafetensorsBytes {
  std::string head;  // the JSON
  at::Tensor data;   // one dimension, bytes
  // Of `data`, if the head has a checksum. It is computed while the file is read, and is sent
  // along.
  std::uint32_t checksum = 0;
};
SafetensorsBytes read_safetensors(const std::string& path);
SafetensorsBytes to_safetensors(const StateDict& state);  // without a checksum
StateDict open_safetensors(const SafetensorsBytes& bytes, const std::string& name);

}  // namespace cpprun
