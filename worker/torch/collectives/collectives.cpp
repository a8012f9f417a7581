// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/collectives/collectives.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <numeric>
#include <optional>
#include <utility>

#include "worker/torch/collectives/reduce_op.h"
#include "worker/torch/compat/versions.h"
#include "worker/torch/group/failure.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {

namespace {

using Tensors = std::vector<at::Tensor>;

// Starts the operation. Over NCCL the first one of a group connects the ranks and waits for them.
template <class Begin>
c10::intrusive_ptr<c10d::Work> begun(const ProcessGroup& group, const char* name,
                                     const Begin& begin) {
  std::optional<Stall> connecting;
  const ProcessGroup::Parts& parts = group.parts();
  if (parts.stalls && parts.family->device.is_cuda()) connecting.emplace(parts.stalls, name);
  try {
    return begin(*group.native());
  } catch (const DistributedError&) {
    throw;
  } catch (const std::exception& error) {
    throw DistributedError(explain_failure(name, error.what(), Exchange::collective) +
                           departures(group, name, error.what()));
  }
}

// Tensors are passed to LibTorch detached everywhere below: same memory, but autograd does not
// record values from other ranks.
Work start(const ProcessGroup& group, const char* name, c10::intrusive_ptr<c10d::Work> native,
           Tensors inputs, Tensors outputs) {
  return Work(std::move(native), {.name = name,
                                  .inputs = std::move(inputs),
                                  .outputs = std::move(outputs),
                                  .stalls = group.parts().stalls});
}

// `like` with `first` as its first dimension; a scalar becomes a list.
at::Tensor empty_with_first(const at::Tensor& like, std::int64_t first) {
  auto shape = like.sizes().vec();
  if (shape.empty()) shape.push_back(1);
  shape.front() = first;
  return at::empty(shape, like.options());
}

std::int64_t first_of(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? 1 : tensor.size(0);
}

void require_one_per_rank(std::size_t count, const ProcessGroup& group, const char* operation) {
  if (count == static_cast<std::size_t>(group.size())) return;
  throw DistributedError(fmt::format("{}: got {} tensors for a group of {}: pass one for each rank",
                                     operation, count, group.size()));
}

}  // namespace

Work all_reduce_async(at::Tensor tensor, const ProcessGroup& group, ReduceOp op) {
  require_dense(tensor, "all_reduce");
  require_type(tensor, op, "all_reduce");
  agree_on(group, "all_reduce", [&] { return name_of(op) + ", " + describe(tensor); });
  Tensors tensors = {tensor.detach()};
  c10d::AllreduceOptions options;
  options.reduceOp = native_op(op, tensor);
  Work work = start(
      group, "all_reduce",
      begun(group, "all_reduce", [&](auto& ranks) { return ranks.allreduce(tensors, options); }),
      {}, tensors);
  return divide_after(std::move(work), op, tensors.front(), group.size());
}

void all_reduce(at::Tensor tensor, const ProcessGroup& group, ReduceOp op) {
  all_reduce_async(std::move(tensor), group, op).wait();
}

Work broadcast_async(at::Tensor tensor, const ProcessGroup& group, int source) {
  require_dense(tensor, "broadcast");
  require_rank(source, group, "broadcast", "source");
  agree_on(group, "broadcast",
           [&] { return fmt::format("from {}, {}", source, describe(tensor)); });
  Tensors tensors = {tensor.detach()};
  c10d::BroadcastOptions options;
  options.rootRank = source;
  return start(
      group, "broadcast",
      begun(group, "broadcast", [&](auto& ranks) { return ranks.broadcast(tensors, options); }), {},
      tensors);
}

void broadcast(at::Tensor tensor, const ProcessGroup& group, int source) {
  broadcast_async(std::move(tensor), group, source).wait();
}

Work reduce_async(at::Tensor tensor, const ProcessGroup& group, int root, ReduceOp op) {
  require_dense(tensor, "reduce");
  require_rank(root, group, "reduce", "root");
  require_type(tensor, op, "reduce");
  agree_on(group, "reduce",
           [&] { return fmt::format("to {}, {}, {}", root, name_of(op), describe(tensor)); });
  Tensors tensors = {tensor.detach()};
  c10d::ReduceOptions options;
  options.reduceOp = native_op(op, tensor);
  options.rootRank = root;
  Work work =
      start(group, "reduce",
            begun(group, "reduce", [&](auto& ranks) { return ranks.reduce(tensors, options); }), {},
            tensors);
  if (group.rank() != root) return work;
  return divide_after(std::move(work), op, tensors.front(), group.size());
}

void reduce(at::Tensor tensor, const ProcessGroup& group, int root, ReduceOp op) {
  reduce_async(std::move(tensor), group, root, op).wait();
}

Work all_gather_async(const at::Tensor& tensor, const ProcessGroup& group) {
  require_dense(tensor, "all_gather");
  agree_on(group, "all_gather", [&] { return describe(tensor); });
  Tensors inputs = {tensor.detach()};
  std::vector<Tensors> outputs(1);
  for (int rank = 0; rank < group.size(); ++rank) {
    outputs.front().push_back(at::empty_like(inputs.front()));
  }
  auto native =
      begun(group, "all_gather", [&](auto& ranks) { return ranks.allgather(outputs, inputs); });
  return start(group, "all_gather", std::move(native), std::move(inputs),
               std::move(outputs.front()));
}

std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const ProcessGroup& group) {
  return all_gather_async(tensor, group).wait();
}

Work all_gather_into_tensor_async(const at::Tensor& tensor, const ProcessGroup& group) {
  require_dense(tensor, "all_gather_into_tensor");
  agree_on(group, "all_gather_into_tensor", [&] { return describe(tensor); });
  at::Tensor input = tensor.detach();
  at::Tensor output = empty_with_first(input, first_of(input) * group.size());
  auto native = begun(group, "all_gather_into_tensor",
                      [&](auto& ranks) { return compat::all_gather_single(ranks, output, input); });
  return start(group, "all_gather_into_tensor", std::move(native), {input}, {output});
}

at::Tensor all_gather_into_tensor(const at::Tensor& tensor, const ProcessGroup& group) {
  return all_gather_into_tensor_async(tensor, group).wait().front();
}

std::vector<double> all_gather(double value, const ProcessGroup& group) {
  std::vector<double> values;
  const auto mine = at::full({1}, value, at::TensorOptions(at::kDouble).device(group.device()));
  for (const at::Tensor& each : all_gather(mine, group)) values.push_back(each.item<double>());
  return values;
}

Work gather_async(const at::Tensor& tensor, const ProcessGroup& group, int root) {
  require_dense(tensor, "gather");
  require_rank(root, group, "gather", "root");
  agree_on(group, "gather", [&] { return fmt::format("to {}, {}", root, describe(tensor)); });
  Tensors inputs = {tensor.detach()};
  std::vector<Tensors> outputs;
  if (group.rank() == root) {
    outputs.emplace_back();
    for (int rank = 0; rank < group.size(); ++rank) {
      outputs.front().push_back(at::empty_like(inputs.front()));
    }
  }
  c10d::GatherOptions options;
  options.rootRank = root;
  auto native =
      begun(group, "gather", [&](auto& ranks) { return ranks.gather(outputs, inputs, options); });
  return start(group, "gather", std::move(native), std::move(inputs),
               outputs.empty() ? Tensors() : outputs.front());
}

std::vector<at::Tensor> gather(const at::Tensor& tensor, const ProcessGroup& group, int root) {
  return gather_async(tensor, group, root).wait();
}

Work scatter_async(at::Tensor output, const std::vector<at::Tensor>& inputs,
                   const ProcessGroup& group, int root) {
  require_dense(output, "scatter");
  require_rank(root, group, "scatter", "root");
  std::vector<Tensors> dealt;
  if (group.rank() == root) {
    require_one_per_rank(inputs.size(), group, "scatter");
    dealt.emplace_back();
    for (const at::Tensor& input : inputs) {
      require_dense(input, "scatter");
      if (input.sizes() != output.sizes() || input.scalar_type() != output.scalar_type()) {
        throw DistributedError(fmt::format("scatter: input and output differ: {} and {}",
                                           describe(input), describe(output)));
      }
      dealt.front().push_back(input.detach());
    }
  }
  agree_on(group, "scatter", [&] { return fmt::format("from {}, {}", root, describe(output)); });
  Tensors outputs = {output.detach()};
  c10d::ScatterOptions options;
  options.rootRank = root;
  auto native =
      begun(group, "scatter", [&](auto& ranks) { return ranks.scatter(outputs, dealt, options); });
  return start(group, "scatter", std::move(native), dealt.empty() ? Tensors() : dealt.front(),
               outputs);
}

void scatter(at::Tensor output, const std::vector<at::Tensor>& inputs, const ProcessGroup& group,
             int root) {
  scatter_async(std::move(output), inputs, group, root).wait();
}

Work reduce_scatter_tensor_async(const at::Tensor& input, const ProcessGroup& group, ReduceOp op) {
  require_dense(input, "reduce_scatter");
  require_type(input, op, "reduce_scatter");
  if (first_of(input) % group.size() != 0) {
    throw DistributedError(
        fmt::format("reduce_scatter: the first dimension, {}, is not a multiple of "
                    "the group's size, {}",
                    first_of(input), group.size()));
  }
  agree_on(group, "reduce_scatter", [&] { return name_of(op) + ", " + describe(input); });
  at::Tensor whole = input.detach();
  at::Tensor output = empty_with_first(whole, first_of(whole) / group.size());
  c10d::ReduceScatterOptions options;
  options.reduceOp = native_op(op, whole);
  auto native = begun(group, "reduce_scatter", [&](auto& ranks) {
    return compat::reduce_scatter_single(ranks, output, whole, options);
  });
  Work work = start(group, "reduce_scatter", std::move(native), {whole}, {output});
  return divide_after(std::move(work), op, output, group.size());
}

at::Tensor reduce_scatter_tensor(const at::Tensor& input, const ProcessGroup& group, ReduceOp op) {
  return reduce_scatter_tensor_async(input, group, op).wait().front();
}

at::Tensor reduce_scatter(const std::vector<at::Tensor>& inputs, const ProcessGroup& group,
                          ReduceOp op) {
  require_one_per_rank(inputs.size(), group, "reduce_scatter");
  Tensors rows;
  for (const at::Tensor& input : inputs) rows.push_back(input.detach().unsqueeze(0));
  // As one tensor: over gloo, LibTorch 2.6 has no lists here, and later versions reduce them one by
  // one.
  return reduce_scatter_tensor(at::cat(rows), group, op).squeeze(0);
}

// Collectives with separate data for each pair of ranks, and those without a tensor.

namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

void require_splits(const std::vector<std::int64_t>& splits, std::int64_t total,
                    const ProcessGroup& group, const char* which) {
  const bool one_each = splits.size() == static_cast<std::size_t>(group.size());
  if (one_each && sum_of(splits) == total) return;
  throw DistributedError(
      fmt::format("all_to_all_single: {} splits [{}] must be {} numbers that add up to {}", which,
                  fmt::join(splits, ", "), group.size(), total));
}

// Detached: an output may require gradients, but here it only receives values.
void refill(const std::vector<at::Tensor>& outputs, const at::Tensor& flat) {
  std::int64_t at = 0;
  for (const at::Tensor& output : outputs) {
    output.detach().copy_(flat.narrow(0, at, output.numel()).view(output.sizes()));
    at += output.numel();
  }
}

}  // namespace

Work all_to_all_single_async(const at::Tensor& input, const ProcessGroup& group,
                             const std::vector<std::int64_t>& output_splits,
                             const std::vector<std::int64_t>& input_splits) {
  require_dense(input, "all_to_all_single");
  if (input.dim() == 0) throw DistributedError("all_to_all_single: a scalar cannot be split");
  if (input_splits.empty() && input.size(0) % group.size() != 0) {
    throw DistributedError(
        fmt::format("all_to_all_single: {} rows cannot be divided equally among {} ranks: set "
                    "input_splits and output_splits",
                    input.size(0), group.size()));
  }
  if (!input_splits.empty()) require_splits(input_splits, input.size(0), group, "input");
  // Only the splits give the size of the output; without them it equals the input's.
  const std::int64_t rows = output_splits.empty() ? input.size(0) : sum_of(output_splits);
  if (!output_splits.empty()) require_splits(output_splits, rows, group, "output");
  agree_on(group, "all_to_all_single", [&] {
    // The number of rows may differ between ranks.
    return fmt::format("{} [*, {}]", c10::toString(input.scalar_type()),
                       fmt::join(input.sizes().slice(1), ", "));
  });
  at::Tensor source = input.detach();
  auto shape = source.sizes().vec();
  shape.front() = rows;
  at::Tensor output = at::empty(shape, source.options());
  auto native = begun(group, "all_to_all_single", [&](auto& ranks) {
    return compat::all_to_all_single(ranks, output, source, output_splits, input_splits);
  });
  return start(group, "all_to_all_single", std::move(native), {source}, {output});
}

at::Tensor all_to_all_single(const at::Tensor& input, const ProcessGroup& group,
                             const std::vector<std::int64_t>& output_splits,
                             const std::vector<std::int64_t>& input_splits) {
  return all_to_all_single_async(input, group, output_splits, input_splits).wait().front();
}

void all_to_all(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs,
                const ProcessGroup& group) {
  const auto size = static_cast<std::size_t>(group.size());
  if (outputs.size() != size || inputs.size() != size) {
    throw DistributedError(
        fmt::format("all_to_all: got {} inputs and {} outputs for a group of {}: pass one of each "
                    "for each rank",
                    inputs.size(), outputs.size(), size));
  }
  // As one tensor, because LibTorch 2.6 has no lists here over gloo.
  std::vector<at::Tensor> flat;
  std::vector<std::int64_t> input_splits;
  std::vector<std::int64_t> output_splits;
  for (const at::Tensor& input : inputs) {
    require_dense(input, "all_to_all");
    flat.push_back(input.detach().flatten());
    input_splits.push_back(input.numel());
  }
  for (const at::Tensor& output : outputs) {
    require_dense(output, "all_to_all");
    output_splits.push_back(output.numel());
  }
  refill(outputs, all_to_all_single(at::cat(flat), group, output_splits, input_splits));
}

Work barrier_async(const ProcessGroup& group) {
  agree_on(group, "barrier", [] { return std::string(); });
  c10d::BarrierOptions options;
  const c10::Device device = group.device();
  // Without a device LibTorch takes the group's main backend, NCCL, even for ranks that have no GPU
  // or share one. NCCL would guess the device from the rank.
  options.device = device;
  if (device.is_cuda()) options.device_ids = {device.index()};
  auto native = begun(group, "barrier", [&](auto& ranks) { return ranks.barrier(options); });
  return start(group, "barrier", std::move(native), {}, {});
}

void barrier(const ProcessGroup& group) {
  barrier_async(group).wait();
}

void monitored_barrier(const ProcessGroup& group, std::chrono::milliseconds timeout,
                       bool wait_all_ranks) {
  c10d::BarrierOptions options;
  options.timeout = timeout;
  // No agree_on() before it: the purpose of this call is to find missing ranks.
  try {
    group.native()->monitoredBarrier(options, wait_all_ranks);
  } catch (const std::exception& error) {
    const std::string words = error.what();
    throw DistributedError("monitored_barrier failed: " + words.substr(0, words.find('\n')));
  }
}

}  // namespace cpprun
