// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An operation under way. The handle keeps the tensors alive; copies of it mean the same operation.

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
    std::vector<at::Tensor> inputs;   // only kept
    std::vector<at::Tensor> outputs;  // what wait() returns
    // Of wait(); absent: what the backend was told of this operation.
    std::optional<std::chrono::milliseconds> timeout = std::nullopt;
    // Told of a wait() that takes its time; may be null.
    std::shared_ptr<StallWatch> stalls = nullptr;
  };
  Work(c10::intrusive_ptr<c10d::Work> native, Start start);

  // Blocks until the operation is done and returns its result; over nccl only the current stream
  // waits, as in Python. Throws DistributedError when a peer is gone or stuck.
  const std::vector<at::Tensor>& wait();
  bool is_completed() const;
  // Of a receive, after wait(): who sent it.
  int source_rank() const;

  // What has to be computed when the operation is done, once, by the first wait(); it returns the
  // outputs. Used by hooks, too, where it runs on a thread of the backend.
  Work then(std::function<std::vector<at::Tensor>()> finish) const;

  // For LibTorch's own interfaces: completes with the list of the outputs.
  c10::intrusive_ptr<c10::ivalue::Future> future() const;

 private:
  struct Parts;
  std::shared_ptr<Parts> parts_;
};

}  // namespace cpprun
