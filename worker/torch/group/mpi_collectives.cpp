// SPDX-License-Identifier: BSD-3-Clause
// The collectives of MpiBackend.

#include <fmt/format.h>

#include <utility>

#include "worker/torch/group/distributed_error.h"
#include "worker/torch/group/mpi_progress.h"
#include "worker/torch/group/mpi_tensors.h"

namespace cpprun {

using namespace mpi;

MpiBackend::NativeWork MpiBackend::broadcast(Tensors& tensors,
                                             const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  const int count = count_of(tensor.numel(), "broadcast");
  return collective({.type = c10d::OpType::BROADCAST,
                     .outputs = {tensor},
                     .bytes = bytes_of(tensor),
                     .begin =
                         [=, communicator = communicator_,
                          root = static_cast<int>(options.rootRank), memory = tensor.data_ptr(),
                          type = mpi_element(tensor.scalar_type())](MPI_Request* request) {
                           return MPI_Ibcast(memory, count, type, root, communicator, request);
                         },
                     .tensors = {tensor}},
                    options.timeout);
}

MpiBackend::NativeWork MpiBackend::allreduce(Tensors& tensors,
                                             const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only(tensors, "all_reduce");
  require_reducible(tensor, options.reduceOp, "all_reduce");
  const int count = count_of(tensor.numel(), "all_reduce");
  return collective(
      {.type = c10d::OpType::ALLREDUCE,
       .outputs = {tensor},
       .bytes = 2 * bytes_of(tensor),
       .begin =
           [=, communicator = communicator_, op = options.reduceOp.op_](MPI_Request* request) {
             const MpiReduction how = mpi_reduction(tensor.scalar_type(), op);
             return MPI_Iallreduce(MPI_IN_PLACE, tensor.data_ptr(), count, how.type, how.op,
                                   communicator, request);
           },
       .finish =
           [tensor, op = options.reduceOp, size = getSize()](const MPI_Status&) {
             divide(tensor, op, size);
             return std::string();
           },
       .tensors = {tensor}},
      options.timeout);
}

MpiBackend::NativeWork MpiBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  if (tensors.empty()) throw DistributedError("all_reduce_coalesced over mpi: no tensors");
  for (const at::Tensor& each : tensors) {
    plain(each, "all_reduce_coalesced");
    require_reducible(each, options.reduceOp, "all_reduce_coalesced");
    if (each.scalar_type() == tensors.front().scalar_type()) continue;
    throw DistributedError("all_reduce_coalesced over mpi: the tensors have different types");
  }
  const at::Tensor flat = joined(tensors);
  const int count = count_of(flat.numel(), "all_reduce_coalesced");
  return collective(
      {.type = c10d::OpType::ALLREDUCE_COALESCED,
       .outputs = tensors,
       .bytes = 2 * bytes_of(flat),
       .begin =
           [=, communicator = communicator_, op = options.reduceOp.op_](MPI_Request* request) {
             const MpiReduction how = mpi_reduction(flat.scalar_type(), op);
             return MPI_Iallreduce(MPI_IN_PLACE, flat.data_ptr(), count, how.type, how.op,
                                   communicator, request);
           },
       .finish =
           [flat, tensors, op = options.reduceOp, size = getSize()](const MPI_Status&) {
             divide(flat, op, size);
             deal(flat, tensors);
             return std::string();
           },
       .tensors = {flat}},
      options.timeout);
}

MpiBackend::NativeWork MpiBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor tensor = only(tensors, "reduce");
  require_reducible(tensor, options.reduceOp, "reduce");
  const int count = count_of(tensor.numel(), "reduce");
  const int root = static_cast<int>(options.rootRank);
  const bool here = root == getRank();
  return collective(
      {.type = c10d::OpType::REDUCE,
       .outputs = {tensor},
       .bytes = bytes_of(tensor),
       .begin =
           [=, communicator = communicator_, op = options.reduceOp.op_](MPI_Request* request) {
             const MpiReduction how = mpi_reduction(tensor.scalar_type(), op);
             const void* const from = here ? MPI_IN_PLACE : tensor.data_ptr();
             void* const to = here ? tensor.data_ptr() : nullptr;
             return MPI_Ireduce(from, to, count, how.type, how.op, root, communicator, request);
           },
       .finish =
           [=, op = options.reduceOp, size = getSize()](const MPI_Status&) {
             if (here) divide(tensor, op, size);
             return std::string();
           },
       .tensors = {tensor}},
      options.timeout);
}

MpiBackend::NativeWork MpiBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "all_gather");
  if (outputs.size() != 1) throw DistributedError("all_gather over mpi needs one list of outputs");
  const Tensors results = outputs.front();
  require_alike(results, input, getSize(), "all_gather");
  const at::Tensor flat = room_for(input, getSize());
  const int count = count_of(input.numel(), "all_gather");
  return collective({.type = c10d::OpType::ALLGATHER,
                     .outputs = results,
                     .bytes = bytes_of(flat),
                     .begin =
                         [=, communicator = communicator_,
                          type = mpi_element(input.scalar_type())](MPI_Request* request) {
                           return MPI_Iallgather(input.data_ptr(), count, type, flat.data_ptr(),
                                                 count, type, communicator, request);
                         },
                     .finish =
                         [=](const MPI_Status&) {
                           deal(flat, results);
                           return std::string();
                         },
                     .tensors = {input, flat}},
                    options.timeout);
}

MpiBackend::NativeWork MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions& options) {
  plain(input, "all_gather");
  plain(output, "all_gather");
  if (output.numel() != input.numel() * getSize() || output.scalar_type() != input.scalar_type()) {
    throw DistributedError(fmt::format(
        "all_gather over mpi: the output has {} elements, expected {} x {} of the input's type",
        output.numel(), getSize(), input.numel()));
  }
  const int count = count_of(input.numel(), "all_gather");
  return collective(
      {.type = c10d::OpType::_ALLGATHER_BASE,
       .outputs = {output},
       .bytes = bytes_of(output),
       .begin =
           [=, communicator = communicator_, from = input.data_ptr(), to = output.data_ptr(),
            type = mpi_element(input.scalar_type())](MPI_Request* request) {
             return MPI_Iallgather(from, count, type, to, count, type, communicator, request);
           },
       .tensors = {input, output}},
      options.timeout);
}

MpiBackend::NativeWork MpiBackend::reduce_scatter_of(const at::Tensor& output,
                                                     const at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  plain(output, "reduce_scatter");
  plain(input, "reduce_scatter");
  require_reducible(input, options.reduceOp, "reduce_scatter");
  if (input.numel() != output.numel() * getSize() || output.scalar_type() != input.scalar_type()) {
    throw DistributedError(
        fmt::format("reduce_scatter over mpi: the input has {} elements, expected {} x {} of "
                    "the output's type",
                    input.numel(), getSize(), output.numel()));
  }
  const int count = count_of(output.numel(), "reduce_scatter");
  return collective(
      {.type = c10d::OpType::REDUCE_SCATTER,
       .outputs = {output},
       .bytes = bytes_of(input),
       .begin =
           [=, communicator = communicator_, op = options.reduceOp.op_](MPI_Request* request) {
             const MpiReduction how = mpi_reduction(input.scalar_type(), op);
             return MPI_Ireduce_scatter_block(input.data_ptr(), output.data_ptr(), count, how.type,
                                              how.op, communicator, request);
           },
       .finish =
           [=, op = options.reduceOp, size = getSize()](const MPI_Status&) {
             divide(output, op, size);
             return std::string();
           },
       .tensors = {input, output}},
      options.timeout);
}

MpiBackend::NativeWork MpiBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_of(output, input, options);
}

MpiBackend::NativeWork MpiBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                  const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  if (inputs.size() != 1) throw DistributedError("reduce_scatter over mpi needs one input list");
  require_alike(inputs.front(), output, getSize(), "reduce_scatter");
  return reduce_scatter_of(output, joined(inputs.front()), options);
}

// `counts`: elements to each rank, their offsets, elements from each rank, their offsets.
MpiBackend::NativeWork MpiBackend::exchange(const at::Tensor& output, const at::Tensor& input,
                                            std::vector<int> counts, Tensors results,
                                            const c10d::AllToAllOptions& options) {
  if (output.scalar_type() != input.scalar_type()) {
    throw DistributedError("all_to_all over mpi: input and output have different types");
  }
  // Shared, because MPI reads them until the operation ends.
  const auto shared = std::make_shared<const std::vector<int>>(std::move(counts));
  const bool by_lists = !results.empty();
  const Tensors outputs = by_lists ? results : Tensors{output};
  return collective({.type = by_lists ? c10d::OpType::ALLTOALL : c10d::OpType::ALLTOALL_BASE,
                     .outputs = outputs,
                     .bytes = bytes_of(input) + bytes_of(output),
                     .begin =
                         [=, communicator = communicator_, size = getSize(),
                          type = mpi_element(input.scalar_type())](MPI_Request* request) {
                           const int* const first = shared->data();
                           return MPI_Ialltoallv(input.data_ptr(), first, first + size, type,
                                                 output.data_ptr(), first + 2 * size,
                                                 first + 3 * size, type, communicator, request);
                         },
                     .finish =
                         [=](const MPI_Status&) {
                           if (by_lists) deal(output, outputs);
                           return std::string();
                         },
                     .tensors = {input, output},
                     .counts = shared},
                    options.timeout);
}

MpiBackend::NativeWork MpiBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                 std::vector<std::int64_t>& output_splits,
                                                 std::vector<std::int64_t>& input_splits,
                                                 const c10d::AllToAllOptions& options) {
  plain(input, "all_to_all");
  plain(output, "all_to_all");
  std::vector<int> counts;
  add_counts(counts, input, input_splits, getSize(), "input");
  add_counts(counts, output, output_splits, getSize(), "output");
  return exchange(output, input, std::move(counts), {}, options);
}

MpiBackend::NativeWork MpiBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                            const c10d::AllToAllOptions& options) {
  std::vector<int> counts;
  const auto flatten = [&](const Tensors& tensors, const char* which) {
    std::vector<std::int64_t> lengths;
    for (const at::Tensor& each : tensors) lengths.push_back(plain(each, "all_to_all").numel());
    const at::Tensor flat = joined(tensors);
    add_counts(counts, flat, lengths, getSize(), which);
    return flat;
  };
  if (inputs.empty() || outputs.empty()) throw DistributedError("all_to_all over mpi: no tensors");
  const at::Tensor input = flatten(inputs, "input");
  const at::Tensor output = flatten(outputs, "output");
  return exchange(output, input, std::move(counts), outputs, options);
}

MpiBackend::NativeWork MpiBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs, "gather");
  const int root = static_cast<int>(options.rootRank);
  const bool here = root == getRank();
  if (outputs.size() != (here ? 1U : 0U)) {
    throw DistributedError("gather over mpi: the root passes one list of outputs, others none");
  }
  const Tensors results = here ? outputs.front() : Tensors();
  if (here) require_alike(results, input, getSize(), "gather");
  const at::Tensor flat = room_for(input, here ? getSize() : 0);
  const int count = count_of(input.numel(), "gather");
  return collective({.type = c10d::OpType::GATHER,
                     .outputs = results,
                     .bytes = here ? bytes_of(flat) : bytes_of(input),
                     .begin =
                         [=, communicator = communicator_,
                          type = mpi_element(input.scalar_type())](MPI_Request* request) {
                           return MPI_Igather(input.data_ptr(), count, type, flat.data_ptr(), count,
                                              type, root, communicator, request);
                         },
                     .finish =
                         [=](const MPI_Status&) {
                           deal(flat, results);
                           return std::string();
                         },
                     .tensors = {input, flat}},
                    options.timeout);
}

MpiBackend::NativeWork MpiBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                           const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs, "scatter");
  const int root = static_cast<int>(options.rootRank);
  const bool here = root == getRank();
  if (inputs.size() != (here ? 1U : 0U)) {
    throw DistributedError("scatter over mpi: the root passes one list of inputs, others none");
  }
  if (here) require_alike(inputs.front(), output, getSize(), "scatter");
  const at::Tensor flat = here ? joined(inputs.front()) : room_for(output, 0);
  const int count = count_of(output.numel(), "scatter");
  return collective({.type = c10d::OpType::SCATTER,
                     .outputs = {output},
                     .bytes = here ? bytes_of(flat) : bytes_of(output),
                     .begin =
                         [=, communicator = communicator_,
                          type = mpi_element(output.scalar_type())](MPI_Request* request) {
                           return MPI_Iscatter(flat.data_ptr(), count, type, output.data_ptr(),
                                               count, type, root, communicator, request);
                         },
                     .tensors = {flat, output}},
                    options.timeout);
}

}  // namespace cpprun
