#pragma once
// The ranks of a job that compute together. One group may hold C++ and Python ranks: the keys under
// which they find each other in the store are those of torch.distributed.
//
// In worker/torch what fails throws, as everything in LibTorch does; cpprun::run() (worker/env)
// turns it into the worker's error report.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <stdexcept>

#include "proto/bounds.h"
#include "worker/env/context.h"

namespace c10d {
class ProcessGroup;
class Store;
}  // namespace c10d

namespace cpprun {

// What was tried, with whom, and why it failed.
class DistributedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct ProcessGroupOptions {
  // One collective may take this long, then its peers are taken for stuck. Five minutes.
  std::chrono::milliseconds timeout = bounds::worker_collective_wait_max;
  // Finding the store and every other rank may take this long. Five minutes.
  std::chrono::milliseconds join_timeout = bounds::worker_collective_wait_max;
};

// Leaving its scope leaves the group in order. While an exception is on its way out nothing waits:
// the connections stay until the process ends, which cpprun::run() does at once.
class ProcessGroup {
 public:
  struct Parts;
  explicit ProcessGroup(std::unique_ptr<Parts> parts);
  ~ProcessGroup();
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;

  int rank() const;
  int size() const;
  // For LibTorch's own interfaces. Its store is shared by all ranks of the group.
  const c10::intrusive_ptr<c10d::ProcessGroup>& native() const;
  const c10::intrusive_ptr<c10d::Store>& store() const;

 private:
  void leave();

  std::unique_ptr<Parts> parts_;
};

// Joins the group that the launcher described, over gloo. Every rank has to call it. Without a
// launcher the group has one member and needs no network. Throws DistributedError.
ProcessGroup init_process_group(const Context& context, const ProcessGroupOptions& options = {});

}  // namespace cpprun
