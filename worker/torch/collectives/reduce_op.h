// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// From our reductions to LibTorch's, and what the backends cannot do themselves.

#include <ATen/core/Tensor.h>

#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "worker/torch/collectives/collectives.h"

namespace cpprun {

std::string name_of(ReduceOp op);

// The average over gloo is a sum that divide_after() divides: LibTorch 2.6 knows no other way.
c10d::ReduceOp::RedOpType native_op(ReduceOp op, const at::Tensor& tensor);
Work divide_after(Work work, ReduceOp op, const at::Tensor& tensor, int size);

// Refuses the bit operations on fractions and the average of whole numbers.
void require_type(const at::Tensor& tensor, ReduceOp op, const char* operation);

}  // namespace cpprun
