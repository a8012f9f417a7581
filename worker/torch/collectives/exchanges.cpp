// SPDX-License-Identifier: BSD-3-Clause
// The collectives in which every rank speaks to every rank separately, and those without a tensor.

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "worker/torch/collectives/collectives.h"
#include "worker/torch/compat/operations.h"
#include "worker/torch/group/calls.h"
#include "worker/torch/group/process_group_parts.h"

namespace cpprun {
namespace {

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

void require_splits(const std::vector<std::int64_t>& splits, std::int64_t total,
                    const ProcessGroup& group, const char* which) {
  const bool one_each = splits.size() == static_cast<std::size_t>(group.size());
  if (one_each && sum_of(splits) == total) return;
  throw DistributedError(
      fmt::format("all_to_all_single: {} splits [{}] should be {} numbers that add up to {}", which,
                  fmt::join(splits, ", "), group.size(), total));
}

// Detached: an output may want gradients, and is only a place to put numbers here.
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
  if (input.dim() == 0) throw DistributedError("all_to_all_single: a single number has no parts");
  if (input_splits.empty() && input.size(0) % group.size() != 0) {
    throw DistributedError(
        fmt::format("all_to_all_single: {} rows do not divide among {} ranks: say input_splits and "
                    "output_splits",
                    input.size(0), group.size()));
  }
  if (!input_splits.empty()) require_splits(input_splits, input.size(0), group, "input");
  // How much comes in is only known from the splits; without them it is as much as goes out.
  const std::int64_t rows = output_splits.empty() ? input.size(0) : sum_of(output_splits);
  if (!output_splits.empty()) require_splits(output_splits, rows, group, "output");
  agree_on(group, "all_to_all_single", [&] {
    // Everybody may bring another number of rows.
    return fmt::format("{} [*, {}]", c10::toString(input.scalar_type()),
                       fmt::join(input.sizes().slice(1), ", "));
  });
  at::Tensor source = input.detach();
  auto shape = source.sizes().vec();
  shape.front() = rows;
  at::Tensor output = at::empty(shape, source.options());
  auto native =
      compat::all_to_all_single(*group.native(), output, source, output_splits, input_splits);
  return Work(std::move(native),
              {.name = "all_to_all_single", .inputs = {source}, .outputs = {output}});
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
        fmt::format("all_to_all: {} inputs and {} outputs for a group of {}, one of each for each "
                    "rank is needed",
                    inputs.size(), outputs.size(), size));
  }
  // By way of one tensor, because LibTorch 2.6 has no lists here over gloo.
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
  // Without a device LibTorch takes the group's main backend: NCCL, for ranks that may have no GPU
  // or share one. NCCL itself would guess the device from the rank.
  options.device = device;
  if (device.is_cuda()) options.device_ids = {device.index()};
  return Work(group.native()->barrier(options),
              {.name = "barrier", .inputs = {}, .outputs = {}, .stalls = group.parts().stalls});
}

void barrier(const ProcessGroup& group) {
  barrier_async(group).wait();
}

void monitored_barrier(const ProcessGroup& group, std::chrono::milliseconds timeout,
                       bool wait_all_ranks) {
  c10d::BarrierOptions options;
  options.timeout = timeout;
  // Nothing is agreed on before: who does not come is what it is called for.
  try {
    group.native()->monitoredBarrier(options, wait_all_ranks);
  } catch (const std::exception& error) {
    const std::string words = error.what();
    throw DistributedError("monitored_barrier failed: " + words.substr(0, words.find('\n')));
  }
}

}  // namespace cpprun
