// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// LibTorch's operations as MPI's, on the tensors of one group. Every one is MPI's own non-blocking
// operation and returns at once. Includes MPI's header, so it is included only where MPI is.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "worker/torch/group/mpi_work.h"

namespace cpprun {

class MpiBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using NativeWork = c10::intrusive_ptr<c10d::Work>;

  // Takes `communicator` over, whose ranks are the group's; `tag_max` is MPI's.
  MpiBackend(std::shared_ptr<MpiProgress> progress, MPI_Comm communicator, int rank, int size,
             int tag_max, std::chrono::milliseconds timeout);
  // Waits for what is under way.
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
  // LibTorch 2.14 has these three under new names as well, which come here.
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
  const int reserved_tag_;  // of monitoredBarrier; messages have lower ones
  std::chrono::milliseconds timeout_;
  std::uint64_t collectives_ = 0;
};

}  // namespace cpprun
