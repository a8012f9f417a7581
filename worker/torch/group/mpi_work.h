// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One operation over MPI, as LibTorch sees it. Includes MPI's header, so it is included only where
// MPI is.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "worker/torch/group/mpi_progress.h"

namespace cpprun {

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

}  // namespace cpprun
