// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Writes and reads safetensors files: a StateDict's tensors as the file's, its texts as the
// metadata. Nothing in such a file is ever executed. Throws FileError.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "worker/torch/files/state_dict.h"

namespace cpprun {

// Names the file and what is wrong with it.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whole or not at all; on the disk when it returns. Tensors may lie on any device and be views.
void save_safetensors(const std::string& path, const StateDict& state);

// The tensors share one allocation on the CPU. A file of ours that does not have the checksum it
// was written with is refused.
StateDict load_safetensors(const std::string& path);

// The same in two steps: the bytes can be sent to ranks that do not have the file.
struct SafetensorsBytes {
  std::string head;  // the JSON
  at::Tensor data;   // one dimension, bytes
};
SafetensorsBytes read_safetensors(const std::string& path);
StateDict open_safetensors(const SafetensorsBytes& bytes, const std::string& name);

}  // namespace cpprun
