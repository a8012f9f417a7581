// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Error messages of failed operations. Does not call LibTorch; only parses the text of its errors.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "worker/torch/group/process_group.h"

namespace cpprun {

enum class Exchange {
  collective,  // all ranks
  message,     // two ranks
};

// `operation`: what was attempted. `words`: the error text of LibTorch, whose first line is the
// cause; the other lines are an internal back-trace of LibTorch. NCCL's reason is below the first.
std::string explain_failure(const std::string& operation, const std::string& words,
                            Exchange exchange);

// Whether the peers were too late.
bool means_time_is_up(const std::string& words);

// Whether the connection of a peer is closed. False if the peer is only late.
bool means_peer_ended(const std::string& words);

// Checks before every operation: reject invalid arguments with a message and, in debug mode,
// compare the call with those of the other ranks.

// Operations take dense tensors only; without this check, others would silently stay unchanged.
void require_dense(const at::Tensor& tensor, const char* operation);

// `role`: what the operation calls that rank: root, source, destination.
void require_rank(int rank, const ProcessGroup& group, const char* operation, const char* role);

// `Float [4, 3] on cpu`.
std::string describe(const at::Tensor& tensor);

// Debug mode only. Otherwise it costs nothing, and `details` is not called.
template <class Details>
void agree_on(const ProcessGroup& group, const char* operation, Details&& details);

void agree_on_text(const ProcessGroup& group, const std::string& call);

template <class Details>
void agree_on(const ProcessGroup& group, const char* operation, Details&& details) {
  if (group.check() == nullptr) return;
  agree_on_text(group, std::string(operation) + "(" + details() + ")");
}

}  // namespace cpprun
