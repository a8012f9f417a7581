// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_backend.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/torch/group/distributed_error.h"

#ifdef CPPRUN_WITH_MPI
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "worker/env/io/environment.h"
#include "worker/torch/group/mpi_progress.h"
#include "worker/torch/group/mpi_tensors.h"
#include "worker/torch/group/mpi_world.h"
#endif

namespace cpprun {

#ifdef CPPRUN_WITH_MPI

using namespace mpi;

// LibTorch's operations on the tensors of one group, each as MPI's own non-blocking operation. All
// return at once.
class MpiBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using NativeWork = c10::intrusive_ptr<c10d::Work>;

  // Takes ownership of `communicator`, whose ranks are the group's. `tag_max` is MPI's limit.
  MpiBackend(std::shared_ptr<MpiProgress> progress, MPI_Comm communicator, int rank, int size,
             int tag_max, std::chrono::milliseconds timeout);
  // Waits for the operations under way.
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "mpi"; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override;
  void shutdown() override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return collectives_; }

  NativeWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  NativeWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  NativeWork allreduce_coalesced(Tensors& tensors,
                                 const c10d::AllreduceCoalescedOptions& options) override;
  NativeWork reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  NativeWork allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                       const c10d::AllgatherOptions& options) override;
  // LibTorch 2.14 also has these three under new names, which call these.
  NativeWork _allgather_base(at::Tensor& output, at::Tensor& input,
                             const c10d::AllgatherOptions& options) override;
  NativeWork _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                  const c10d::ReduceScatterOptions& options) override;
  NativeWork alltoall_base(at::Tensor& output, at::Tensor& input,
                           std::vector<std::int64_t>& output_splits,
                           std::vector<std::int64_t>& input_splits,
                           const c10d::AllToAllOptions& options) override;
  NativeWork gather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::GatherOptions& options) override;
  NativeWork scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                     const c10d::ScatterOptions& options) override;
  NativeWork reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                            const c10d::ReduceScatterOptions& options) override;
  NativeWork alltoall(Tensors& outputs, Tensors& inputs,
                      const c10d::AllToAllOptions& options) override;
  NativeWork barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  NativeWork send(Tensors& tensors, int destination, int tag) override;
  NativeWork recv(Tensors& tensors, int source, int tag) override;
  NativeWork recvAnysource(Tensors& tensors, int tag) override;

 private:
  NativeWork collective(MpiCall call, std::chrono::milliseconds timeout);
  NativeWork reduce_scatter_of(const at::Tensor& output, const at::Tensor& input,
                               const c10d::ReduceScatterOptions& options);
  NativeWork exchange(const at::Tensor& output, const at::Tensor& input, std::vector<int> counts,
                      Tensors results, const c10d::AllToAllOptions& options);
  NativeWork send_tagged(const at::Tensor& tensor, int destination, int tag);
  NativeWork receive_tagged(const at::Tensor& tensor, int source, int tag);
  int checked_tag(int tag, const char* name) const;

  const std::shared_ptr<MpiProgress> progress_;
  const std::shared_ptr<MpiHealth> health_ = std::make_shared<MpiHealth>();
  MPI_Comm communicator_;
  const int reserved_tag_;  // for monitoredBarrier; messages use lower tags
  std::chrono::milliseconds timeout_;
  std::uint64_t collectives_ = 0;
};

MpiBackend::MpiBackend(std::shared_ptr<MpiProgress> progress, MPI_Comm communicator, int rank,
                       int size, int tag_max, std::chrono::milliseconds timeout)
    : Backend(rank, size),
      progress_(std::move(progress)),
      communicator_(communicator),
      reserved_tag_(tag_max),
      timeout_(timeout) {}

MpiBackend::~MpiBackend() {
  shutdown();
}

void MpiBackend::shutdown() {
  progress_->drain(this);
  // After an aborted operation, MPI still uses the communicator.
  if (communicator_ == MPI_COMM_NULL || !health_->why_broken().empty()) return;
  try {
    progress_->call([this] { return MPI_Comm_free(&communicator_); });
  } catch (const DistributedError&) {
    // The process exits, and MPI is already finalised.
  }
}

void MpiBackend::abort() {
  health_->breaks(mpi_aborted);
  progress_->give_up_all(this, mpi_aborted);
}

MpiBackend::NativeWork MpiBackend::collective(MpiCall call, std::chrono::milliseconds timeout) {
  if (const std::string why = health_->why_broken(); !why.empty()) {
    throw DistributedError(
        fmt::format("an earlier operation of this group failed: {} (create a new group)", why));
  }
  if (!call.is_message) ++collectives_;
  call.timeout = timeout == c10d::kUnsetTimeout ? timeout_ : timeout;
  return MpiWork::start(progress_, health_, this, getRank(), std::move(call));
}

MpiBackend::NativeWork MpiBackend::barrier(const c10d::BarrierOptions& options) {
  return collective(
      {.type = c10d::OpType::BARRIER,
       .begin = [communicator = communicator_](
                    MPI_Request* request) { return MPI_Ibarrier(communicator, request); }},
      options.timeout);
}

// Uses messages, because MPI's own barrier does not report the missing ranks.
void MpiBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? timeout_ : options.timeout;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const at::Tensor word = at::zeros({1}, at::kByte);
  if (getRank() != 0) {
    send_tagged(word, 0, reserved_tag_)->wait(timeout);
    receive_tagged(word, 0, reserved_tag_)->wait(timeout);
    return;
  }
  std::vector<NativeWork> arrivals;
  for (int rank = 1; rank < getSize(); ++rank) {
    arrivals.push_back(receive_tagged(at::zeros({1}, at::kByte), rank, reserved_tag_));
  }
  std::vector<int> missing;
  for (int rank = 1; rank < getSize(); ++rank) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      arrivals[static_cast<std::size_t>(rank - 1)]->wait(
          std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      missing.push_back(rank);
      if (!wait_all_ranks) break;
    }
  }
  if (!missing.empty()) {
    throw std::runtime_error(
        fmt::format("[Rank 0]: Ranks {} failed to pass monitoredBarrier in {} ms",
                    fmt::join(missing, ", "), timeout.count()));
  }
  for (int rank = 1; rank < getSize(); ++rank)
    send_tagged(word, rank, reserved_tag_)->wait(timeout);
}

int MpiBackend::checked_tag(int tag, const char* name) const {
  if (tag >= 0 && tag < reserved_tag_) return tag;
  throw DistributedError(fmt::format("{} over mpi: tag {} is outside of MPI's range, 0 to {}", name,
                                     tag, reserved_tag_ - 1));
}

MpiBackend::NativeWork MpiBackend::send_tagged(const at::Tensor& tensor, int destination, int tag) {
  plain(tensor, "send");
  const int count = count_of(tensor.numel(), "send");
  return collective({.type = c10d::OpType::SEND,
                     .outputs = {tensor},
                     .bytes = bytes_of(tensor),
                     .is_message = true,
                     .begin =
                         [=, communicator = communicator_,
                          type = mpi_element(tensor.scalar_type())](MPI_Request* request) {
                           return MPI_Isend(tensor.data_ptr(), count, type, destination, tag,
                                            communicator, request);
                         },
                     .tensors = {tensor}},
                    timeout_);
}

MpiBackend::NativeWork MpiBackend::receive_tagged(const at::Tensor& tensor, int source, int tag) {
  plain(tensor, "recv");
  const int count = count_of(tensor.numel(), "recv");
  const MPI_Datatype type = mpi_element(tensor.scalar_type());
  return collective(
      {.type = source == MPI_ANY_SOURCE ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
       .outputs = {tensor},
       .bytes = bytes_of(tensor),
       .is_receive = true,
       .is_message = true,
       .begin =
           [=, communicator = communicator_](MPI_Request* request) {
             return MPI_Irecv(tensor.data_ptr(), count, type, source, tag, communicator, request);
           },
       .finish = [=](const MPI_Status& status) -> std::string {
         int came = 0;
         MPI_Get_count(&status, type, &came);
         if (came == count) return {};
         return fmt::format("rank {} sent {} elements, expected {}", status.MPI_SOURCE, came,
                            count);
       },
       .source = [](const MPI_Status& status) { return status.MPI_SOURCE; },
       .tensors = {tensor}},
      timeout_);
}

MpiBackend::NativeWork MpiBackend::send(Tensors& tensors, int destination, int tag) {
  return send_tagged(only(tensors, "send"), destination, checked_tag(tag, "send"));
}

MpiBackend::NativeWork MpiBackend::recv(Tensors& tensors, int source, int tag) {
  return receive_tagged(only(tensors, "recv"), source, checked_tag(tag, "recv"));
}

MpiBackend::NativeWork MpiBackend::recvAnysource(Tensors& tensors, int tag) {
  return receive_tagged(only(tensors, "recv"), MPI_ANY_SOURCE, checked_tag(tag, "recv"));
}

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
    throw DistributedError(
        fmt::format("all_gather over mpi: the output has {} elements; it needs {} (ranks) x {} "
                    "(elements of the "
                    "input), of the input's type",
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
  if (inputs.size() != 1)
    throw DistributedError("reduce_scatter over mpi takes exactly one input list");
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

namespace {

void refuse(const std::string& fault) {
  if (!fault.empty()) throw DistributedError(fault);
}

// Publishes this rank's card and waits for the others'. The first keys are those of gloo's
// addresses, so that missing ranks are found in the same way.
std::vector<std::optional<int>> meet(c10d::Store& store, const std::string& prefix, int rank,
                                     int size, std::optional<int> mpi_rank,
                                     std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int each = 0; each < size; ++each) keys.push_back(fmt::format("{}/{}", prefix, each));
  store.set(keys[static_cast<std::size_t>(rank)], mpi_card(mpi_rank));
  store.wait(keys, timeout);
  std::vector<std::string> cards;
  for (const std::string& key : keys) cards.push_back(store.get_to_str(key));
  const auto ranks = mpi_ranks_of(cards);
  if (!ranks) throw DistributedError(ranks.error().reason);
  return *ranks;
}

// Runs on MPI's thread. Only members call it.
int make_communicator(const std::vector<int>& mpi_ranks, int tag, MPI_Comm* made) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  int code = MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (code == MPI_SUCCESS) {
    code = MPI_Group_incl(world, static_cast<int>(mpi_ranks.size()), mpi_ranks.data(), &members);
  }
  if (code == MPI_SUCCESS) code = MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, made);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN);
  if (members != MPI_GROUP_NULL) MPI_Group_free(&members);
  if (world != MPI_GROUP_NULL) MPI_Group_free(&world);
  return code;
}

}  // namespace

bool mpi_built() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size, const MpiMeeting& meeting) {
  const auto deadline = std::chrono::steady_clock::now() + meeting.join;
  const auto left = [&deadline] {
    return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(
                                                      deadline - std::chrono::steady_clock::now()));
  };
  const MpiStart start = mpi_start_of(read_environment());
  if (start.size) refuse(mpi_world_fault(*start.size, meeting.world_size));
  meet(*store, "0", rank, size, start.rank, left());

  const auto progress = mpi_progress();
  const MpiProgress::World world = progress->wait_until_ready(left());
  refuse(mpi_world_fault(world.size, meeting.world_size));
  std::vector<int> mpi_ranks;
  for (const auto& each : meet(*store, "mpi", rank, size, world.rank, left())) {
    mpi_ranks.push_back(each.value_or(0));  // set on every rank that has met
  }

  // Distinguishes groups that several threads create at the same time.
  const int tag = static_cast<int>(std::hash<std::string>()(meeting.group) % 32768);
  MPI_Comm communicator = MPI_COMM_NULL;
  std::string words;
  progress->call([&] {
    const int code = make_communicator(mpi_ranks, tag, &communicator);
    if (code != MPI_SUCCESS) words = mpi_error_text(code);
    return code;
  });
  if (!words.empty()) throw DistributedError("backend mpi: MPI cannot create the group: " + words);
  return c10::make_intrusive<MpiBackend>(progress, communicator, rank, size, world.tag_max,
                                         meeting.collective);
}

#else

bool mpi_built() {
  return false;
}

c10::intrusive_ptr<c10d::Backend> make_mpi_backend(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                                   const MpiMeeting&) {
  throw DistributedError(
      "backend mpi is not part of this build, because no MPI was found; use backend gloo");
}

#endif

}  // namespace cpprun
