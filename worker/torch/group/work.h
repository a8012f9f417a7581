// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An operation under way. The handle keeps the tensors alive. Copies refer to the same operation.

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace c10d {
class Work;
}  // namespace c10d

namespace c10::ivalue {
struct Future;
}  // namespace c10::ivalue

namespace cpprun {

class StallWatch;

class [[nodiscard]] Work {
 public:
  struct Start {
    std::string name;                 // for error messages
    std::vector<at::Tensor> inputs;   // kept alive, not used
    std::vector<at::Tensor> outputs;  // what wait() returns
    // Limit of wait(). Absent: the limit that the backend got for this operation.
    std::optional<std::chrono::milliseconds> timeout = std::nullopt;
    // Reports an operation that takes long; may be null.
    std::shared_ptr<StallWatch> stalls = nullptr;
  };
  Work(c10::intrusive_ptr<c10d::Work> native, Start start);

  // Blocks until the operation is done and returns its result. Over nccl only the current stream
  // waits, as in Python. Throws DistributedError if a peer is gone or stuck.
  const std::vector<at::Tensor>& wait();
  bool is_completed() const;
  // For a receive, after wait(): the sender's rank.
  int source_rank() const;

  // Adds a computation to run once, by the first wait() after the operation is done. It returns the
  // new outputs. Hooks use it too; there it runs on a thread of the backend.
  Work then(std::function<std::vector<at::Tensor>()> finish) const;

  // For LibTorch's own interfaces. Completes with the list of outputs.
  c10::intrusive_ptr<c10::ivalue::Future> future() const;

 private:
  struct Parts;
  explicit Work(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<Parts> parts_;
};

}  // namespace cpprun
