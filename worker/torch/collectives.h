#pragma once
// What ranks say to each other, under the names of the field. All of them block until done, must be
// called by every rank of the group in the same order, and throw when a peer is gone.

#include <ATen/core/Tensor.h>

#include <vector>

#include "worker/torch/process_group.h"

namespace cpprun {

enum class ReduceOp { sum, average, product, min, max };

// In place: afterwards every rank holds the reduction of all ranks' `tensor`.
void all_reduce(at::Tensor tensor, const ProcessGroup& group, ReduceOp op = ReduceOp::sum);

// In place: afterwards every rank holds what `source` held.
void broadcast(at::Tensor tensor, const ProcessGroup& group, int source = 0);

// Every rank's `tensor`, in the order of the ranks. Shapes and types must be alike.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group);

// Every rank's number, in the order of the ranks.
std::vector<double> all_gather(double value, const ProcessGroup& group);

// Returns when every rank has called it.
void barrier(const ProcessGroup& group);

}  // namespace cpprun
