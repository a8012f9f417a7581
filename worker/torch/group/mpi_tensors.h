// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Prepares tensors for MPI: plain memory of this machine, counted in an int, with the data of
// several ranks in one contiguous piece. Does not depend on MPI. Errors are DistributedErrors whose
// message begins with `name`, the operation.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace cpprun::mpi {

using Tensors = std::vector<at::Tensor>;

// Throws unless the tensor is dense, contiguous and on the CPU. Returns its argument.
const at::Tensor& plain(const at::Tensor& tensor, const char* name);
// The same for the only tensor of a list.
const at::Tensor& only(const Tensors& tensors, const char* name);
int count_of(std::int64_t elements, const char* name);
std::int64_t bytes_of(const at::Tensor& tensor);

// Why tensors of this type do not support `op`, as a clause. Empty if they do.
std::string why_not_reduced(c10::ScalarType type, c10d::ReduceOp::RedOpType op);
void require_reducible(const at::Tensor& tensor, const c10d::ReduceOp& op, const char* name);
// Requires one tensor for each rank, all with the type and number of elements of `like`.
void require_alike(const Tensors& tensors, const at::Tensor& like, int size, const char* name);

// One contiguous piece for several tensors: allocate it, copy all tensors into it, copy it back.
at::Tensor room_for(const at::Tensor& like, int times);
at::Tensor joined(const Tensors& tensors);
void deal(const at::Tensor& flat, const Tensors& outputs);

// Divides a sum by `size` if `op` is the average.
void divide(const at::Tensor& tensor, const c10d::ReduceOp& op, int size);

// Appends the number of elements of each rank, then the offset of each. `splits`: rows of each
// rank; empty: equal shares. `which`: the tensor's name in an error message.
void add_counts(std::vector<int>& counts, const at::Tensor& tensor,
                const std::vector<std::int64_t>& splits, int size, const char* which);

}  // namespace cpprun::mpi
