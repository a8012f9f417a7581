// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Sends tensors from one rank to another. A receive must match a send of the same shape, type and
// tag. Messages with the same tag between two ranks arrive in order.

#include <ATen/core/Tensor.h>

#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace cpprun {

inline constexpr int any_source = -1;

// Returns when the tensor may be changed again. It may not have been received yet.
void send(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag = 0);

// Fills `tensor` and returns the sender's rank. Over gloo `source` may be any_source.
int recv(at::Tensor tensor, int source, const ProcessGroup& group, int tag = 0);

// These return at once; after wait() the tensor is free, or filled. Use them if two ranks both send
// before they receive: with the blocking functions both may wait forever.
Work isend(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag = 0);
Work irecv(at::Tensor tensor, int source, const ProcessGroup& group, int tag = 0);

}  // namespace cpprun
