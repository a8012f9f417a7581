// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The one thread of this process that calls MPI: it initialises MPI, begins operations in the order
// in which they were asked for, looks after those under way, and finalises MPI when the process
// ends. So any MPI will do, also one that takes calls from the thread that initialised it alone;
// operations of all groups are under way at once, and each may take no longer than it was given.
// Includes MPI's header, so it is included only where MPI is.
//
// A thread it has to be, because MPI moves data only while it is called, and whoever asked for an
// operation computes meanwhile. A second one completes futures: what hangs on them is foreign code,
// which may wait for another operation.

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

// How an operation came to its end, for MPI's thread alone.
struct MpiEnd {
  std::string failure;                 // empty: it was done
  const MPI_Status* status = nullptr;  // of one that was done
};

struct MpiOperation {
  const void* group = nullptr;  // whose it is; only compared
  std::int64_t bytes = 0;       // how much it moves, by which the thread paces itself
  std::chrono::milliseconds timeout{};
  bool is_receive = false;  // it alone can be taken back
  // Both on MPI's thread. `begin` returns MPI's error code; MPI_REQUEST_NULL is done at once. `end`
  // is called exactly once, and must not throw.
  std::function<int(MPI_Request*)> begin;
  std::function<void(const MpiEnd&)> end;
  // What MPI reads and writes, until it has let go of it.
  std::shared_ptr<const void> keeps;

  // Whoever sets it ends the operation, unless it has ended: `end` is called soon, with these
  // words, which have to stay.
  std::atomic<const char*> given_up = nullptr;
};

// What the words of one whose time is up begin with (failure.h knows them).
inline constexpr const char* mpi_timed_out = "Timed out";
inline constexpr const char* mpi_aborted = "It was aborted";

class MpiProgress {
 public:
  // Starts the thread; wait_until_ready() says how that went.
  MpiProgress();
  ~MpiProgress();
  // Gives up what is under way, and finalises MPI, unless this library did not initialise it, or
  // MPI still holds memory of an operation that was given up. Nothing can be submitted any more.
  void finish();
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;

  struct World {
    int rank = 0;
    int size = 0;
    int tag_max = 0;
  };
  // Throws DistributedError if MPI cannot be used, or is not there within `timeout`.
  World wait_until_ready(std::chrono::milliseconds timeout) const;

  void submit(const std::shared_ptr<MpiOperation>& operation);
  // Ends all that a group has asked for and that has not ended.
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

// MPI exists once in a process, and comes only once: so does this. It finishes with the process.
std::shared_ptr<MpiProgress> mpi_progress();

// LibTorch's operations as MPI's, on the tensors of one group. Every one is MPI's own non-blocking
// operation and returns at once. Includes MPI's header, so it is included only where MPI is.

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

// One operation over MPI, as LibTorch sees it. Includes MPI's header, so it is included only where
// MPI is.

// Why a group takes no more operations: one of its collectives failed, and the ranks no longer
// agree on which is the next. From any thread.
class MpiHealth {
 public:
  void breaks(const std::string& why);
  std::string why_broken() const;  // empty while it works

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
  bool is_message = false;  // its failure leaves the group as it is
  std::function<int(MPI_Request*)> begin;
  // On MPI's thread, when MPI is done: copies to where the caller wants it, and says what is wrong
  // with what came. May be empty.
  std::function<std::string(const MPI_Status&)> finish;
  std::function<int(const MPI_Status&)> source;    // of a receive from any rank
  std::vector<at::Tensor> tensors;                 // kept while MPI may touch them
  std::shared_ptr<const std::vector<int>> counts;  // likewise
};

class MpiWork : public c10d::Work {
 public:
  // Submits it. `group` only names it (MpiOperation::group).
  static c10::intrusive_ptr<MpiWork> start(const std::shared_ptr<MpiProgress>& progress,
                                           const std::shared_ptr<MpiHealth>& health,
                                           const void* group, int rank, MpiCall call);

  MpiWork(int rank, c10d::OpType type, std::shared_ptr<MpiProgress> progress,
          std::vector<at::Tensor> outputs);

  // Gives the operation up when the time is over; 0: waits for the operation's own limit.
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
  bool ended_ = false;  // a moment before whoever waits is told
  std::exception_ptr failure_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // once somebody has asked for it
};

// LibTorch's element types and reductions in MPI's terms. Includes MPI's header, so it is included
// only where MPI is.

// For what is only moved: a type of that many bytes. Throws DistributedError if there is none.
MPI_Datatype mpi_element(c10::ScalarType type);

// MPI's own words for one of its error codes. On MPI's thread.
std::string mpi_error_text(int code);

struct MpiReduction {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
};
// On MPI's thread, for what why_not_reduced() (mpi_tensors.h) has nothing against. The average is a
// sum that the caller divides; bool stays 0 or 1: a sum of it is "any", a product "all".
MpiReduction mpi_reduction(c10::ScalarType type, c10d::ReduceOp::RedOpType op);

}  // namespace cpprun
