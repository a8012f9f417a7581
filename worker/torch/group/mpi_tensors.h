// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Tensors as MPI wants them: plain memory of this machine, counted in an int, and what goes to or
// comes from several ranks in one piece. Knows no MPI. Refusals are DistributedErrors that begin
// with `name`, the operation's.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

namespace cpprun::mpi {

using Tensors = std::vector<at::Tensor>;

// Refuses what is not dense, contiguous and on the CPU; returns its argument.
const at::Tensor& plain(const at::Tensor& tensor, const char* name);
// The only one of a list, likewise.
const at::Tensor& only(const Tensors& tensors, const char* name);
int count_of(std::int64_t elements, const char* name);
std::int64_t bytes_of(const at::Tensor& tensor);

// Why tensors of that type cannot be reduced so, a clause; empty if they can.
std::string why_not_reduced(c10::ScalarType type, c10d::ReduceOp::RedOpType op);
void require_reducible(const at::Tensor& tensor, const c10d::ReduceOp& op, const char* name);
// One for each rank, all of `like`'s type and number of elements.
void require_alike(const Tensors& tensors, const at::Tensor& like, int size, const char* name);

// One after the other in one piece: room for several of one kind, the contents of all, and back.
at::Tensor room_for(const at::Tensor& like, int times);
at::Tensor joined(const Tensors& tensors);
void deal(const at::Tensor& flat, const Tensors& outputs);

// After a sum, where the average was asked for.
void divide(const at::Tensor& tensor, const c10d::ReduceOp& op, int size);

// Appends the elements of each rank, and then where those of each begin. `splits` says how many
// rows are whose; empty: equally many. `which` is what the tensor is called in a refusal.
void add_counts(std::vector<int>& counts, const at::Tensor& tensor,
                const std::vector<std::int64_t>& splits, int size, const char* which);

}  // namespace cpprun::mpi
