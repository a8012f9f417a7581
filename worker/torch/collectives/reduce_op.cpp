// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/reduce_op.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

namespace cpprun {
namespace {

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::bit_and || op == ReduceOp::bit_or || op == ReduceOp::bit_xor;
}

bool averages_itself(const at::Tensor& tensor) {
  return tensor.is_cuda();
}

}  // namespace

std::string name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::average:
      return "average";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::bit_and:
      return "bit_and";
    case ReduceOp::bit_or:
      return "bit_or";
    case ReduceOp::bit_xor:
      return "bit_xor";
  }
  throw DistributedError("unknown reduction");
}

c10d::ReduceOp::RedOpType native_op(ReduceOp op, const at::Tensor& tensor) {
  switch (op) {
    case ReduceOp::sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::average:
      return averages_itself(tensor) ? c10d::ReduceOp::AVG : c10d::ReduceOp::SUM;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::bit_and:
      return c10d::ReduceOp::BAND;
    case ReduceOp::bit_or:
      return c10d::ReduceOp::BOR;
    case ReduceOp::bit_xor:
      return c10d::ReduceOp::BXOR;
  }
  throw DistributedError("unknown reduction");
}

Work divide_after(Work work, ReduceOp op, const at::Tensor& tensor, int size) {
  if (op != ReduceOp::average || averages_itself(tensor)) return work;
  return work.then([tensor, size] {
    const at::NoGradGuard no_grad;
    tensor.div_(size);
    return std::vector<at::Tensor>{tensor};
  });
}

void require_type(const at::Tensor& tensor, ReduceOp op, const char* operation) {
  const bool fractions = tensor.is_floating_point() || tensor.is_complex();
  if (op == ReduceOp::average && !fractions) {
    throw DistributedError(fmt::format(
        "{}: cannot average integers; reduce by sum and divide, or convert the tensor first",
        operation));
  }
  if (is_bitwise(op) && fractions) {
    throw DistributedError(fmt::format("{}: {} needs integers, not {}", operation, name_of(op),
                                       c10::toString(tensor.scalar_type())));
  }
}

}  // namespace cpprun
