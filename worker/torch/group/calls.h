// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What every operation does before it starts: refuse what cannot work, in words, and in debug mode
// agree with the other ranks that they call the same.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "worker/torch/group/process_group.h"

namespace cpprun {

// An operation reads and writes dense tensors; anything else would silently be left as it was.
void require_dense(const at::Tensor& tensor, const char* operation);

// `role` is what the rank is called there: root, source, destination.
void require_rank(int rank, const ProcessGroup& group, const char* operation, const char* role);

// `Float [4, 3] on cpu`.
std::string describe(const at::Tensor& tensor);

// Only in debug mode, else it costs nothing: `details` is not called.
template <class Details>
void agree_on(const ProcessGroup& group, const char* operation, Details&& details);

void agree_on_text(const ProcessGroup& group, const std::string& call);

template <class Details>
void agree_on(const ProcessGroup& group, const char* operation, Details&& details) {
  if (group.check() == nullptr) return;
  agree_on_text(group, std::string(operation) + "(" + details() + ")");
}

}  // namespace cpprun
