// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Tensors from one rank to another. A receive needs a send of the same shape, type and tag;
// messages with one tag between two ranks arrive in order.

#include <ATen/core/Tensor.h>

#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace cpprun {

inline constexpr int any_source = -1;

// Returns when the tensor may be changed again, which need not mean that it was received.
void send(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag = 0);

// Fills `tensor`, and returns who sent it. Over gloo `source` may be any_source.
int recv(at::Tensor tensor, int source, const ProcessGroup& group, int tag = 0);

// These return at once; the tensor is free, or filled, after wait(). Two ranks that both send
// before they receive need them: with the blocking ones both may wait for ever.
Work isend(const at::Tensor& tensor, int destination, const ProcessGroup& group, int tag = 0);
Work irecv(at::Tensor tensor, int source, const ProcessGroup& group, int tag = 0);

}  // namespace cpprun
