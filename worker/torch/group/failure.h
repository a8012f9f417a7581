// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The words of an operation that failed. Knows no LibTorch, only what its errors look like.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "worker/torch/group/process_group.h"

namespace cpprun {

enum class Exchange {
  collective,  // all ranks
  message,     // two of them
};

// `operation` is what was tried, `words` what LibTorch said of it: its first line is the cause, the
// rest a back-trace of its own inside.
std::string explain_failure(const std::string& operation, const std::string& words,
                            Exchange exchange);

// Whether the peers did not come in time.
bool means_time_is_up(const std::string& words);

// Whether a peer's connection is gone, in contrast to a peer that is late.
bool means_peer_ended(const std::string& words);

// What every operation does before it starts: refuse what cannot work, in words, and in debug mode
// agree with the other ranks that they call the same.

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
