#include "worker/torch/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace cpprun {
namespace {

c10d::ReduceOp::RedOpType native(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::average:
      return c10d::ReduceOp::AVG;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
  }
  throw DistributedError("no such reduction");
}

// A collective writes into a dense tensor; anything else would silently be left as it was.
void require_dense(const at::Tensor& tensor, const char* what) {
  if (!tensor.defined()) throw DistributedError(fmt::format("{}: the tensor is undefined", what));
  if (!tensor.is_contiguous()) {
    throw DistributedError(
        fmt::format("{}: the tensor is not contiguous, pass .contiguous()", what));
  }
}

}  // namespace

void all_reduce(at::Tensor tensor, const ProcessGroup& group, ReduceOp op) {
  require_dense(tensor, "all_reduce");
  std::vector<at::Tensor> tensors = {tensor.detach()};
  c10d::AllreduceOptions options;
  options.reduceOp = native(op);
  group.native()->allreduce(tensors, options)->wait();
}

void broadcast(at::Tensor tensor, const ProcessGroup& group, int source) {
  require_dense(tensor, "broadcast");
  if (source < 0 || source >= group.size()) {
    throw DistributedError(
        fmt::format("broadcast: source {} is no rank of a group of {}", source, group.size()));
  }
  std::vector<at::Tensor> tensors = {tensor.detach()};
  c10d::BroadcastOptions options;
  options.rootRank = source;
  group.native()->broadcast(tensors, options)->wait();
}

std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group) {
  require_dense(tensor, "all_gather");
  std::vector<at::Tensor> inputs = {tensor.detach()};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int rank = 0; rank < group.size(); ++rank) {
    outputs.front().push_back(at::empty_like(inputs.front()));
  }
  group.native()->allgather(outputs, inputs)->wait();
  return outputs.front();
}

std::vector<double> all_gather(double value, const ProcessGroup& group) {
  std::vector<double> values;
  for (const at::Tensor& each : all_gather(at::full({1}, value, at::kDouble), group)) {
    values.push_back(each.item<double>());
  }
  return values;
}

void barrier(const ProcessGroup& group) {
  group.native()->barrier()->wait();
}

}  // namespace cpprun
