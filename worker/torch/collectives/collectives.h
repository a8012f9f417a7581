// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Collective operations, under the names of the field. Every rank of the group has to call the same
// operations in the same order, with tensors of the same shape and type, or it hangs or worse;
// CPPRUN_DISTRIBUTED_DEBUG=DETAIL finds out who did not. Roots and sources are ranks of the group.
// Functions ending in _async return at once; do not touch the tensors before wait(). All throw
// DistributedError when a peer is gone.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace cpprun {

// The bit_ ones take whole numbers, average takes fractions.
enum class ReduceOp { sum, average, product, min, max, bit_and, bit_or, bit_xor };

// In place: afterwards every rank holds the reduction of all ranks' `tensor`.
void all_reduce(at::Tensor tensor, const ProcessGroup& group, ReduceOp op = ReduceOp::sum);
Work all_reduce_async(at::Tensor tensor, const ProcessGroup& group, ReduceOp op = ReduceOp::sum);

// In place: afterwards every rank holds what `source` held.
void broadcast(at::Tensor tensor, const ProcessGroup& group, int source = 0);
Work broadcast_async(at::Tensor tensor, const ProcessGroup& group, int source = 0);

// In place on `root`; what the others hold afterwards is undefined.
void reduce(at::Tensor tensor, const ProcessGroup& group, int root = 0,
            ReduceOp op = ReduceOp::sum);
Work reduce_async(at::Tensor tensor, const ProcessGroup& group, int root = 0,
                  ReduceOp op = ReduceOp::sum);

// Every rank's `tensor`, in the order of the ranks.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group);
Work all_gather_async(const at::Tensor& tensor, const ProcessGroup& group);

// The same as one tensor, joined along the first dimension.
at::Tensor all_gather_into_tensor(const at::Tensor& tensor, const ProcessGroup& group);
Work all_gather_into_tensor_async(const at::Tensor& tensor, const ProcessGroup& group);

// Every rank's number, in the order of the ranks.
std::vector<double> all_gather(double value, const ProcessGroup& group);

// On `root` every rank's `tensor`, elsewhere nothing.
std::vector<at::Tensor> gather(const at::Tensor& tensor, const ProcessGroup& group, int root = 0);
Work gather_async(const at::Tensor& tensor, const ProcessGroup& group, int root = 0);

// Afterwards `output` of rank r holds the r-th of `inputs`, which only `root` brings.
void scatter(at::Tensor output, const std::vector<at::Tensor>& inputs, const ProcessGroup& group,
             int root = 0);
Work scatter_async(at::Tensor output, const std::vector<at::Tensor>& inputs,
                   const ProcessGroup& group, int root = 0);

// Rank r gets the reduction of everybody's r-th input.
at::Tensor reduce_scatter(const std::vector<at::Tensor>& inputs, const ProcessGroup& group,
                          ReduceOp op = ReduceOp::sum);
// The same for inputs joined along the first dimension, which has to divide by the group's size.
at::Tensor reduce_scatter_tensor(const at::Tensor& input, const ProcessGroup& group,
                                 ReduceOp op = ReduceOp::sum);
Work reduce_scatter_tensor_async(const at::Tensor& input, const ProcessGroup& group,
                                 ReduceOp op = ReduceOp::sum);

// Rank r gets everybody's r-th input, in the order of the ranks, into `outputs`, which say with
// their shapes what is expected from whom.
void all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                const ProcessGroup& group);
// The same for one tensor, cut along the first dimension: in equal parts, or as the splits say,
// each with one number per rank.
at::Tensor all_to_all_single(const at::Tensor& input, const ProcessGroup& group,
                             const std::vector<std::int64_t>& output_splits = {},
                             const std::vector<std::int64_t>& input_splits = {});
Work all_to_all_single_async(const at::Tensor& input, const ProcessGroup& group,
                             const std::vector<std::int64_t>& output_splits = {},
                             const std::vector<std::int64_t>& input_splits = {});

// Returns when every rank has called it.
void barrier(const ProcessGroup& group);
Work barrier_async(const ProcessGroup& group);

// A barrier over gloo that names the ranks that do not arrive in time: the first of them, or all.
void monitored_barrier(const ProcessGroup& group, std::chrono::milliseconds timeout,
                       bool wait_all_ranks = false);

}  // namespace cpprun
