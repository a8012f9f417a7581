// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/mpi_operations.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "worker/torch/group/distributed_error.h"
#include "worker/torch/group/mpi_tensors.h"
#include "worker/torch/group/mpi_types.h"

namespace cpprun {

using namespace mpi;

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
  // With an operation that was given up, MPI still has work for it.
  if (communicator_ == MPI_COMM_NULL || !health_->why_broken().empty()) return;
  try {
    progress_->call([this] { return MPI_Comm_free(&communicator_); });
  } catch (const DistributedError&) {
    // The process ends, and MPI has ended before.
  }
}

void MpiBackend::abort() {
  health_->breaks(mpi_aborted);
  progress_->give_up_all(this, mpi_aborted);
}

MpiBackend::NativeWork MpiBackend::collective(MpiCall call, std::chrono::milliseconds timeout) {
  if (const std::string why = health_->why_broken(); !why.empty()) {
    throw DistributedError(
        fmt::format("an operation of this group failed before: {} (make a new group)", why));
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

// By messages, because a barrier of MPI's does not say who is missing.
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
  throw DistributedError(fmt::format("{} over mpi: tag {} is not from 0 to {}, as MPI's tags are",
                                     name, tag, reserved_tag_ - 1));
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
         return fmt::format("rank {} sent {} elements of that size where {} were to be received",
                            status.MPI_SOURCE, came, count);
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

}  // namespace cpprun
