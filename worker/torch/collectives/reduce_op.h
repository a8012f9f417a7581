// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Maps ReduceOp to LibTorch's reductions and adds what backends lack.

#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "worker/torch/collectives/collectives.h"

namespace cpprun {

std::string name_of(ReduceOp op);

// Over gloo the average is a sum that divide_after() divides: LibTorch 2.6 has no average there.
c10d::ReduceOp::RedOpType native_op(ReduceOp op, const at::Tensor& tensor);
Work divide_after(Work work, ReduceOp op, const at::Tensor& tensor, int size);

// Throws for bit operations on floating point tensors and for the average of integers.
void require_type(const at::Tensor& tensor, ReduceOp op, const char* operation);

}  // namespace cpprun
