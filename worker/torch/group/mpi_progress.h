// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The only thread of this process that calls MPI. It initialises MPI, begins operations in the
// order of their requests, polls those under way, and finalises MPI when the process ends. So any
// MPI works, even if it accepts calls only from the thread that initialised it. Operations of all
// groups run concurrently, each with its own timeout. Include this file only where MPI exists.
//
// A thread is needed because MPI moves data only while it is called, and the caller computes
// meanwhile. A second thread completes futures: their callbacks are foreign code, which may wait
// for another operation.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>
#include <mpi.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cpprun {

// The outcome of an operation. Only for MPI's thread.
struct MpiEnd {
  std::string failure;                 // empty on success
  const MPI_Status* status = nullptr;  // set on success
};

struct MpiOperation {
  const void* group = nullptr;  // the owner; only compared
  std::int64_t bytes = 0;       // size of the transfer; sets the polling pace
  std::chrono::milliseconds timeout{};
  bool is_receive = false;  // only a receive can be cancelled
  // Both run on MPI's thread. `begin` returns MPI's error code; leaving MPI_REQUEST_NULL means done
  // at once. `end` is called exactly once and must not throw.
  std::function<int(MPI_Request*)> begin;
  std::function<void(const MpiEnd&)> end;
  // The memory that MPI reads and writes. Kept until MPI has released it.
  std::shared_ptr<const void> keeps;

  // Setting this ends the operation unless it has ended: `end` is called soon with this text. The
  // text must outlive the operation.
  std::atomic<const char*> given_up = nullptr;
};

// How the message of a timed-out operation begins (failure.h matches it).
inline constexpr const char* mpi_timed_out = "Timed out";
inline constexpr const char* mpi_aborted = "Aborted";

class MpiProgress {
 public:
  // Starts the thread. Use wait_until_ready() to get the result.
  MpiProgress();
  ~MpiProgress();
  // Aborts what is under way and finalises MPI, unless this library did not initialise it or MPI
  // still holds memory of an aborted operation. Do not call submit() after it.
  void finish();
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;

  struct World {
    int rank = 0;
    int size = 0;
    int tag_max = 0;
  };
  // Throws DistributedError if MPI cannot be used or is not ready within `timeout`.
  World wait_until_ready(std::chrono::milliseconds timeout) const;

  void submit(const std::shared_ptr<MpiOperation>& operation);
  // Ends all operations of a group that have not ended.
  void give_up_all(const void* group, const char* why);
  // Returns when no operation of that group is under way.
  void drain(const void* group);

  // Calls `body` on MPI's thread, in the order of the operations, and returns its result.
  int call(const std::function<int()>& body);
  // Calls `body` on the thread that completes futures.
  void later(std::function<void()> body);

 private:
  struct Desk;
  class Thread;
  std::shared_ptr<Desk> desk_;
};

// MPI can be initialised only once in a process, so there is one instance. It ends at exit.
std::shared_ptr<MpiProgress> mpi_progress();

// LibTorch's operations on the tensors of one group, each as MPI's own non-blocking operation. All
// return at once. Includes MPI's header, so include this file only where MPI exists.

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

// One operation over MPI, as LibTorch's Work. Include this file only where MPI exists.

// Why a group rejects further operations: one of its collectives failed, and the ranks may disagree
// on the next one. Thread-safe.
class MpiHealth {
 public:
  void breaks(const std::string& why);
  std::string why_broken() const;  // empty while the group is usable

 private:
  mutable std::mutex mutex_;
  std::string why_;
};

struct MpiCall {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::vector<at::Tensor> outputs;  // the result
  std::int64_t bytes = 0;
  std::chrono::milliseconds timeout{};
  bool is_receive = false;
  bool is_message = false;  // its failure does not break the group
  std::function<int(MPI_Request*)> begin;
  // Runs on MPI's thread when MPI is done. Copies the result to the caller's tensors and returns
  // what is wrong with the received data, or an empty string. May be null.
  std::function<std::string(const MPI_Status&)> finish;
  std::function<int(const MPI_Status&)> source;    // for a receive from any rank
  std::vector<at::Tensor> tensors;                 // kept alive while MPI may access them
  std::shared_ptr<const std::vector<int>> counts;  // likewise
};

class MpiWork : public c10d::Work {
 public:
  // Submits the operation. `group` is only an identifier (MpiOperation::group).
  static c10::intrusive_ptr<MpiWork> start(const std::shared_ptr<MpiProgress>& progress,
                                           const std::shared_ptr<MpiHealth>& health,
                                           const void* group, int rank, MpiCall call);

  MpiWork(int rank, c10d::OpType type, std::shared_ptr<MpiProgress> progress,
          std::vector<at::Tensor> outputs);

  // Aborts the operation after `timeout`. 0: waits for the operation's own limit.
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  int sourceRank() const override { return source_; }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void end(const std::string& failure);

  const std::shared_ptr<MpiProgress> progress_;
  const std::vector<at::Tensor> outputs_;
  std::shared_ptr<MpiOperation> operation_;
  int source_ = -1;
  std::string gave_up_;
  bool ended_ = false;  // set shortly before the waiting threads are notified
  std::exception_ptr failure_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // created on the first getFuture()
};

// Converts LibTorch's element types and reductions to MPI's. Include this file only where MPI
// exists.

// For transfers without arithmetic: a type of the same width. Throws DistributedError if none fits.
MPI_Datatype mpi_element(c10::ScalarType type);

// MPI's message for an error code. Call it on MPI's thread.
std::string mpi_error_text(int code);

struct MpiReduction {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};
// Call it on MPI's thread, and only if why_not_reduced() (mpi_tensors.h) is empty. The average is a
// sum that the caller divides. bool stays 0 or 1: the sum means "any", the product "all".
MpiReduction mpi_reduction(c10::ScalarType type, c10d::ReduceOp::RedOpType op);

}  // namespace cpprun
