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

// One operation over MPI, as LibTorch's Work.
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
