// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Collective operations, under their usual names. Every rank of the group must call the same
// operations in the same order, with tensors of the same shape and type. Otherwise the ranks hang
// or get wrong results; CPPRUN_DISTRIBUTED_DEBUG=DETAIL finds the rank that differs. Roots and
// sources are ranks of the group. Functions ending in _async return at once; do not touch the
// tensors before wait(). All throw DistributedError if a peer is gone.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "worker/torch/group/process_group.h"
#include "worker/torch/group/work.h"

namespace cpprun {

// The bit_ reductions need integers; average needs floating point.
enum class ReduceOp { sum, average, product, min, max, bit_and, bit_or, bit_xor };

// In place: every rank's tensor becomes the reduction of all ranks' tensors.
void all_reduce(at::Tensor tensor, const ProcessGroup& group, ReduceOp op = ReduceOp::sum);
Work all_reduce_async(at::Tensor tensor, const ProcessGroup& group, ReduceOp op = ReduceOp::sum);

// In place: every rank's tensor becomes that of `source`.
void broadcast(at::Tensor tensor, const ProcessGroup& group, int source = 0);
Work broadcast_async(at::Tensor tensor, const ProcessGroup& group, int source = 0);

// In place on `root`; the tensors of the other ranks are undefined afterwards.
void reduce(at::Tensor tensor, const ProcessGroup& group, int root = 0,
            ReduceOp op = ReduceOp::sum);
Work reduce_async(at::Tensor tensor, const ProcessGroup& group, int root = 0,
                  ReduceOp op = ReduceOp::sum);

// The tensors of all ranks, in rank order.
std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group);
Work all_gather_async(const at::Tensor& tensor, const ProcessGroup& group);

// The same as one tensor, concatenated along the first dimension.
at::Tensor all_gather_into_tensor(const at::Tensor& tensor, const ProcessGroup& group);
Work all_gather_into_tensor_async(const at::Tensor& tensor, const ProcessGroup& group);

// The numbers of all ranks, in rank order.
std::vector<double> all_gather(double value, const ProcessGroup& group);

// On `root` the tensors of all ranks, in rank order; empty on the others.
std::vector<at::Tensor> gather(const at::Tensor& tensor, const ProcessGroup& group, int root = 0);
Work gather_async(const at::Tensor& tensor, const ProcessGroup& group, int root = 0);

// On rank r, `output` becomes the r-th of `inputs`. `inputs` is used on `root` only.
void scatter(at::Tensor output, const std::vector<at::Tensor>& inputs, const ProcessGroup& group,
             int root = 0);
Work scatter_async(at::Tensor output, const std::vector<at::Tensor>& inputs,
                   const ProcessGroup& group, int root = 0);

// Rank r gets the reduction of all ranks' r-th inputs.
at::Tensor reduce_scatter(const std::vector<at::Tensor>& inputs, const ProcessGroup& group,
                          ReduceOp op = ReduceOp::sum);
// The same for inputs concatenated along the first dimension, which the group's size must divide.
at::Tensor reduce_scatter_tensor(const at::Tensor& input, const ProcessGroup& group,
                                 ReduceOp op = ReduceOp::sum);
Work reduce_scatter_tensor_async(const at::Tensor& input, const ProcessGroup& group,
                                 ReduceOp op = ReduceOp::sum);

// Rank r gets all ranks' r-th inputs, in rank order. The shape of each of `outputs` must match the
// input expected from that rank.
void all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                const ProcessGroup& group);
// The same for one tensor, split along the first dimension: in equal parts, or by the splits, which
// have one number of rows per rank.
at::Tensor all_to_all_single(const at::Tensor& input, const ProcessGroup& group,
                             const std::vector<std::int64_t>& output_splits = {},
                             const std::vector<std::int64_t>& input_splits = {});
Work all_to_all_single_async(const at::Tensor& input, const ProcessGroup& group,
                             const std::vector<std::int64_t>& output_splits = {},
                             const std::vector<std::int64_t>& input_splits = {});

// Returns when every rank has called it.
void barrier(const ProcessGroup& group);
Work barrier_async(const ProcessGroup& group);

// A barrier over gloo. Its error names the ranks that do not arrive in time: the first, or all.
void monitored_barrier(const ProcessGroup& group, std::chrono::milliseconds timeout,
                       bool wait_all_ranks = false);

}  // namespace cpprun
